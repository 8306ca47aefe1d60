import Documents

/// Documents that a peer refused because a version of theirs is ahead of its clock, each with the time at which it is offered again on this
/// connection: nanoseconds since 1970. A new connection offers all of them anyway.
struct AwaitedTimes {
    private var times: [DocumentID: UInt64] = [:]
    /// Somebody looks at the clock later.
    var isTimerSet = false

    var next: UInt64? { times.values.min() }

    /// - Parameter limit: beyond it only what is awaited already is.
    mutating func add(_ id: DocumentID, _ time: UInt64, limit: Int) {
        if times.count < limit || times[id] != nil { times[id] = time }
    }

    /// Those whose time has come, in the order of their times.
    mutating func take(now: UInt64) -> [DocumentID] {
        let due = times.filter { $0.value <= now }.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map(\.key)
        for id in due { times[id] = nil }
        return due
    }
}
