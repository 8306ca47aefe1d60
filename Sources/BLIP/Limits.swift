/// Limits of one BLIP connection. Everything that a peer can make grow has a limit here, and ``BLIPError/limitExceeded(_:value:maximum:)`` names the
/// one that was exceeded. Exceeding any of them ends the connection, except for requests that are too long.
public struct BLIPLimits: Sendable, Equatable {
    /// Largest frame sent, in bytes, including header and checksum. LiteCore sends no larger ones; Sync Gateway closes above 32 KiB and LiteCore
    /// hangs above 64 KiB. Values outside 64 … 32,000 are clamped.
    public var maximumFrame: Int = 16_384
    /// Frame size in bytes while an urgent message waits behind a normal one, so that its wait is short.
    public var maximumFrameBeforeUrgent: Int = 4_096
    /// Largest frame accepted, in bytes: LiteCore's own limit for a WebSocket frame.
    public var maximumIncomingFrame: Int = 1_048_576
    /// Longest property block, in bytes: LiteCore's limit in both directions.
    public var maximumProperties: Int = 102_400
    /// Properties of one message. Real peers send a dozen. Each look-up of a key examines all of them once.
    public var maximumPropertyCount: Int = 256
    /// Bytes to which the data of one frame may inflate: what LiteCore's largest frame, 16,384 bytes, becomes at deflate's best ratio, 1032. Anything
    /// beyond is a decompression bomb.
    public var maximumInflatedFrame: Int = 17 * 1_048_576
    /// Longest request kept, in bytes, uncompressed, including properties: a 20 MiB document and some overhead. The body of a longer one is dropped
    /// as it arrives (``IncomingRequest/isTruncated``).
    public var maximumMessage: Int = 25 * 1_048_576
    /// ``maximumMessage`` for individual profiles; values above ``maximumMessage`` have no effect.
    public var maximumMessageByProfile: [String: Int] = [:]
    /// Longest reply accepted without streaming, in bytes, uncompressed.
    public var maximumReply: Int = 64 * 1_048_576
    /// Longest error reply accepted to a request with a streamed reply, in bytes, uncompressed.
    public var maximumErrorReply: Int = 65_536
    /// Messages from the peer that are begun and not ended at the same time. Each costs a table entry.
    public var maximumUnfinishedMessages: Int = 4_096
    /// Bytes held for all unfinished messages together: without this limit, every message could grow to its own.
    public var maximumUnfinishedBytes: Int = 32 * 1_048_576
    /// Bytes of unfinished messages above which long requests arrive one after the other: only the oldest is acknowledged, and the others stop at the
    /// peer's window. Each of many that arrive together may be within its limit although memory is too short for all of them.
    public var maximumInterleavedBytes: Int = 4 * 1_048_576
    /// Unconsumed bytes of a streamed reply, uncompressed, above which it is not acknowledged. The peer then stops at its own window, 128,000 bytes
    /// as transmitted.
    public var streamWindow: Int = 131_072
    /// Bytes of a streamed reply, as transmitted, that may arrive beyond the last acknowledgement: four times what peers allow themselves. A peer
    /// that sends more ignores acknowledgements.
    public var maximumStreamUnacknowledged: Int = 512_000
    /// Unconsumed bytes of a streamed reply, uncompressed, above which its next frame is refused. With highly compressible data, even peers that keep
    /// to their window can get here; see ``BLIPConnection/shouldPauseReading``.
    public var maximumStreamUnconsumed: Int = 4 * 1_048_576
    /// Queued bytes of a streamed reply of ours below which more is requested from the owner.
    public var streamLowWater: Int = 32_768
    /// Complete requests from the peer that await our reply. The owner should stop reading long before this.
    public var maximumOpenRequests: Int = 65_536
    /// A message is acknowledged each time this many more of its bytes have arrived (compressed, including checksums). Peers stop at 128,000, so it
    /// must stay well below that.
    public var ackThreshold: Int = 50_000
    /// Unacknowledged bytes at which sending of a message pauses (LiteCore's value).
    public var sendWindow: Int = 128_000

    /// Bytes of an error reply's body used as its message; the rest is cut off.
    public var maximumErrorText: Int = 4_096

    #if DEBUG
    /// Fault injection for the simulation: streamed replies are collected completely, and copied with each frame.
    package var copiesReplies = false
    #endif

    /// Room for the largest header, the checksum, deflate's worst-case growth and some data.
    static let smallestFrame = 64
    /// Slightly below Sync Gateway's limit for a WebSocket message.
    static let largestFrame = 32_000

    public init() {}

    /// The longest request of `profile` that is kept, in bytes, uncompressed, including properties.
    public func maximumMessage(of profile: String) -> Int {
        min(maximumMessageByProfile[profile] ?? maximumMessage, maximumMessage)
    }

    /// A request up to this length is accepted without looking at its profile.
    var smallestMessageLimit: Int {
        maximumMessageByProfile.values.reduce(maximumMessage) { min($0, $1) }
    }
}
