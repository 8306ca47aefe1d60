/// Bounds of one BLIP connection. Everything a peer can make grow has one here, and ``BLIPError/limitExceeded(_:value:maximum:)``
/// names the one that was hit.
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
    /// Longest request accepted, in bytes, uncompressed, properties included: 20 MiB of document and room around it.
    public var maximumMessage: Int = 25 * 1_048_576
    /// Longest reply accepted, in bytes, uncompressed. Replies carry blobs, and we asked for them.
    public var maximumReply: Int = 64 * 1_048_576
    /// Messages begun and not ended by the peer at one time. Each costs a table entry.
    public var maximumUnfinishedMessages: Int = 4_096
    /// Bytes held for messages begun and not ended, all together: without it every message could grow to its own limit.
    public var maximumUnfinishedBytes: Int = 128 * 1_048_576
    /// Complete requests of the peer that wait for our reply. The owner should stop reading long before.
    public var maximumOpenRequests: Int = 65_536
    /// A message is acknowledged each time this many more of its bytes have arrived (compressed, checksums included).
    /// Peers stop at 128,000, so it must stay well below.
    public var ackThreshold: Int = 50_000
    /// A message stops being sent at this many unacknowledged bytes (LiteCore's value).
    public var sendWindow: Int = 128_000

    /// Bytes of an error reply's body that become its message; the rest is cut.
    public var maximumErrorText: Int = 4_096

    /// Room for the largest header, the checksum, deflate's worst growth and some data.
    static let smallestFrame = 64
    /// Sync Gateway's bound for a WebSocket message, less some.
    static let largestFrame = 32_000

    public init() {}
}
