/// How many changes were transferred as deltas, and why others that could have been were not.
public struct DeltaCounts: Sendable, Equatable {
    /// Revisions that the peer wanted, and of which it named, or was known to hold, an ancestor.
    public var requested: UInt64 = 0
    /// Revisions that were sent as deltas.
    public var sent: UInt64 = 0
    /// Revisions received as deltas. Those in conflict, or already present, needed no body, and count neither as applied nor as failed.
    public var received: UInt64 = 0
    /// Received deltas that were applied.
    public var applied: UInt64 = 0
    /// Received deltas that could not be applied; the peer was asked for the whole body.
    public var failed: UInt64 = 0
    /// Bytes of bodies that did not have to be transferred, in both directions.
    public var bytesSaved: UInt64 = 0

    /// The base no longer exists here.
    public var withoutBase: UInt64 = 0
    /// The peer is not known to hold the base, or may not have it.
    public var notOpen: UInt64 = 0
    /// The delta would not have been smaller than the body.
    public var notSmaller: UInt64 = 0
    /// The body or the base is too large, contains encrypted values, or names blobs that the peer expects in another form.
    public var unfit: UInt64 = 0
    /// There was no memory for it within `limits.memory`.
    public var withoutMemory: UInt64 = 0
    /// The peer could not apply the delta, and was sent the whole body.
    public var refused: UInt64 = 0

    public init() {}

    /// Why whole bodies were sent: pairs of a name and a count.
    public var reasons: [(name: String, count: UInt64)] {
        [
            ("without_base", withoutBase), ("not_open", notOpen), ("not_smaller", notSmaller), ("unfit", unfit), ("refused", refused),
            ("without_memory", withoutMemory),
        ]
    }

    public static func + (a: Self, b: Self) -> Self {
        var sum = a
        sum.requested &+= b.requested
        sum.sent &+= b.sent
        sum.received &+= b.received
        sum.applied &+= b.applied
        sum.failed &+= b.failed
        sum.bytesSaved &+= b.bytesSaved
        sum.withoutBase &+= b.withoutBase
        sum.notOpen &+= b.notOpen
        sum.notSmaller &+= b.notSmaller
        sum.unfit &+= b.unfit
        sum.refused &+= b.refused
        sum.withoutMemory &+= b.withoutMemory
        return sum
    }

    /// The counts that subtract these when added, as unsigned numbers wrap around.
    var negated: Self {
        var result = Self()
        result.requested = 0 &- requested
        result.sent = 0 &- sent
        result.received = 0 &- received
        result.applied = 0 &- applied
        result.failed = 0 &- failed
        result.bytesSaved = 0 &- bytesSaved
        result.withoutBase = 0 &- withoutBase
        result.notOpen = 0 &- notOpen
        result.notSmaller = 0 &- notSmaller
        result.unfit = 0 &- unfit
        result.refused = 0 &- refused
        result.withoutMemory = 0 &- withoutMemory
        return result
    }
}
