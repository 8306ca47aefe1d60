/// All limits of a message endpoint's connection, with their defaults and reasons. Errors name the property.
public struct MessageEndpointLimits: Sendable, Equatable {
    /// `message_bytes`: size of one incoming message. BLIP frames have 16 KiB; WebSockets have the same limit here.
    public var messageBytes = 1024 * 1024

    /// `segment_bytes`: the payload of one frame on a byte stream, 16 to 32,768. A long message is split into several. The smaller value of both
    /// sides applies. Use short segments for lossy lines: whole segments are retransmitted.
    public var segmentBytes = 16 * 1024

    /// `window_segments`: segments that may be in flight without an acknowledgement, and that a paused receiver buffers.
    public var windowSegments = 32

    /// `unsynchronised_bytes`: bytes of a stream without any frame after which the connection ends: the speed is wrong, or the peer is not a
    /// Nightjar.
    public var unsynchronisedBytes = 256 * 1024

    /// `inbound_bytes`: bytes buffered from a sender that does not pause when asked to.
    public var inboundBytes = 4 * 1024 * 1024

    /// `outbound_bytes`: bytes that may wait for a peer that does not read; beyond this, the connection ends.
    public var outboundBytes = 16 * 1024 * 1024

    /// `write_high_watermark`: waiting bytes above which the replicator stops writing; BLIP's limit for unacknowledged bytes.
    public var writeHighWatermark = 128_000

    /// `write_low_watermark`: waiting bytes below which it continues.
    public var writeLowWatermark = 32_000

    /// `connections`: concurrent connections of a listener.
    public var connections = 1000

    /// `handshakes`: how many of these, on byte streams, may have a peer that has not been admitted yet; beyond this, the oldest is dropped.
    public var handshakes = 100

    /// `connect_time`: nanoseconds within which a connection must be open, including a byte stream's handshake. LiteCore's value.
    public var connectTime: UInt64 = 15_000_000_000

    /// `close_time`: nanoseconds for the peer's answer to a CLOSE, and for sending what is left. LiteCore's value.
    public var closeTime: UInt64 = 5_000_000_000

    /// `resend_time`: the shortest wait for an acknowledgement before a segment is retransmitted, in nanoseconds. The measured round-trip time
    /// extends it.
    public var resendTime: UInt64 = 10_000_000_000

    /// `resends`: consecutive retransmissions without any answer after which the connection ends.
    public var resends = 10

    /// `silence_time`: nanoseconds without a frame after which the peer is probed.
    public var silenceTime: UInt64 = 60_000_000_000

    public init() {}

    /// Limits for a line that loses and corrupts bytes, such as a serial one.
    ///
    /// - Parameter speed: in bits per second, at ten bits per byte.
    public static func line(speed: Int) -> MessageEndpointLimits {
        var limits = MessageEndpointLimits()
        limits.segmentBytes = 512
        limits.windowSegments = 16
        // The wait must cover a burst in each direction.
        let burst = UInt64(ByteStreamLink.burstBytes * 2) * 10 * 1_000_000_000 / UInt64(max(speed, 50))
        limits.resendTime = max(200_000_000, burst)
        limits.silenceTime = 30_000_000_000
        return limits
    }
}
