/// Bounds of one BLIP connection. Everything a peer can make grow has one here, and ``BLIPError/limitExceeded(_:value:maximum:)``
/// names the one that was hit. Only requests that are too long
/// do not end the connection.
public struct BLIPLimits: Sendable, Equatable {
    /// Largest frame sent, in bytes, header and checksum included. LiteCore sends no more than this; Sync Gateway closes
    /// above 32 KiB and LiteCore hangs above 64 KiB. Values outside 64 … 32,000 are moved to the nearer end.
    public var maximumFrame: Int = 16_384
    /// Frame size while an urgent message waits behind a normal one, so that it waits for little.
    public var maximumFrameBeforeUrgent: Int = 4_096
    /// Largest frame accepted, in bytes: LiteCore's own bound for a WebSocket frame.
    public var maximumIncomingFrame: Int = 1_048_576
    /// Longest property block accepted, in bytes: LiteCore's bound, both ways.
    public var maximumProperties: Int = 102_400
    /// Properties of one message: real peers send a dozen. Each is looked at once for every key that is asked for.
    public var maximumPropertyCount: Int = 256
    /// Most bytes that the data of one frame may become when inflated: what LiteCore's largest frame, 16,384 bytes, becomes at
    /// deflate's best ratio, 1032. Small frames that grow without end are a bomb.
    public var maximumInflatedFrame: Int = 17 * 1_048_576
    /// Longest request kept, in bytes, uncompressed, properties included: 20 MiB of document and room around it. The body of a
    /// longer one is dropped as it comes (``IncomingRequest/isTruncated``).
    public var maximumMessage: Int = 25 * 1_048_576
    /// The same for single profiles; what is above ``maximumMessage`` has no effect.
    public var maximumMessageByProfile: [String: Int] = [:]
    /// Longest reply accepted that is not streamed, in bytes, uncompressed.
    public var maximumReply: Int = 64 * 1_048_576
    /// Longest error reply accepted to a request whose reply is streamed, in bytes, uncompressed.
    public var maximumErrorReply: Int = 65_536
    /// Messages begun and not ended by the peer at one time. Each costs a table entry.
    public var maximumUnfinishedMessages: Int = 4_096
    /// Bytes held for messages begun and not ended, all together: without it every message could grow to its own limit.
    public var maximumUnfinishedBytes: Int = 32 * 1_048_576
    /// While more bytes of a streamed reply than this were told and not consumed, uncompressed, it is not acknowledged: the
    /// peer then stops at its own window, 128,000 bytes as transmitted.
    public var streamWindow: Int = 131_072
    /// Bytes of a streamed reply, as transmitted, that may come beyond the last acknowledgement: four times what peers allow
    /// themselves. More is a peer that ignores acknowledgements.
    public var maximumStreamUnacknowledged: Int = 512_000
    /// A frame of a streamed reply is refused while more bytes of it than this are unconsumed, uncompressed. Peers that keep to
    /// their window get here with data that compresses well; see ``BLIPConnection/shouldPauseReading``.
    public var maximumStreamUnconsumed: Int = 4 * 1_048_576
    /// More is wanted for a streamed reply of ours when fewer bytes of it than this are queued.
    public var streamLowWater: Int = 32_768
    /// Complete requests of the peer that wait for our reply. The owner should stop reading long before.
    public var maximumOpenRequests: Int = 65_536
    /// A message is acknowledged each time this many more of its bytes have arrived (compressed, checksums included).
    /// Peers stop at 128,000, so it must stay well below.
    public var ackThreshold: Int = 50_000
    /// A message stops being sent at this many unacknowledged bytes (LiteCore's value).
    public var sendWindow: Int = 128_000

    /// Bytes of an error reply's body that become its message; the rest is cut.
    public var maximumErrorText: Int = 4_096

    #if DEBUG
    /// A planted fault of the simulation: streamed replies are gathered to their end, and copied with each frame.
    package var copiesReplies = false
    #endif

    /// Room for the largest header, the checksum, deflate's worst growth and some data.
    static let smallestFrame = 64
    /// Sync Gateway's bound for a WebSocket message, less some.
    static let largestFrame = 32_000

    public init() {}

    /// The limit that holds for requests of `profile`, in bytes, uncompressed, properties included.
    public func maximumMessage(of profile: String) -> Int {
        min(maximumMessageByProfile[profile] ?? maximumMessage, maximumMessage)
    }

    /// Requests up to this length need no look at their profile.
    var smallestMessageLimit: Int {
        maximumMessageByProfile.values.reduce(maximumMessage) { min($0, $1) }
    }
}
