/// Every bound of a message endpoint's connection, with its default and the reason for it. Errors name the property.
public struct MessageEndpointLimits: Sendable, Equatable {
    /// `message_bytes`: one message that comes in. BLIP frames have 16 KiB; WebSockets have the same limit here.
    public var messageBytes = 1024 * 1024

    /// `segment_bytes`: the payload of one frame on a byte stream, 16 to 32,768. A long message travels in several. The smaller of both sides' holds.
    /// Short ones for lines that lose bytes: what is lost is sent again by the segment.
    public var segmentBytes = 16 * 1024

    /// `window_segments`: segments that may be on their way without an acknowledgement, and that a paused receiver keeps.
    public var windowSegments = 32

    /// `unsynchronised_bytes`: bytes of a stream in which no frame was found, until the connection ends: a wrong speed, or no Nightjar.
    public var unsynchronisedBytes = 256 * 1024

    /// `inbound_bytes`: what is kept of a sender that does not stop when it is asked to.
    public var inboundBytes = 4 * 1024 * 1024

    /// `outbound_bytes`: what may wait for a peer that does not read; the connection ends beyond it.
    public var outboundBytes = 16 * 1024 * 1024

    /// `write_high_watermark`: waiting bytes from which the replicator writes no more; BLIP's bound of unacknowledged bytes.
    public var writeHighWatermark = 128_000

    /// `write_low_watermark`: waiting bytes below which it goes on.
    public var writeLowWatermark = 32_000

    /// `connections`: those that a listener holds at a time.
    public var connections = 1000

    /// `handshakes`: of those, on a byte stream, the ones whose peer has not been let in yet; the oldest makes room.
    public var handshakes = 100

    /// `connect_time`: nanoseconds until a connection is open, the byte stream's handshake included. LiteCore's value.
    public var connectTime: UInt64 = 15_000_000_000

    /// `close_time`: nanoseconds in which the peer may answer a CLOSE and what was sent before may go out. LiteCore's value.
    public var closeTime: UInt64 = 5_000_000_000

    /// `resend_time`: the shortest wait for an acknowledgement, in nanoseconds, before a segment is sent again. The measured round trip prolongs it.
    public var resendTime: UInt64 = 10_000_000_000

    /// `resends`: how often in a row something is sent again without any answer, until the connection ends.
    public var resends = 10

    /// `silence_time`: nanoseconds without a frame until the peer is asked whether it is there.
    public var silenceTime: UInt64 = 60_000_000_000

    public init() {}

    /// For a line that loses and garbles bytes, such as a serial one.
    ///
    /// - Parameter speed: bits a second; ten of them make a byte.
    public static func line(speed: Int) -> MessageEndpointLimits {
        var limits = MessageEndpointLimits()
        limits.segmentBytes = 512
        limits.windowSegments = 16
        // A burst of both directions has to fit into the wait.
        let burst = UInt64(ByteStreamLink.burstBytes * 2) * 10 * 1_000_000_000 / UInt64(max(speed, 50))
        limits.resendTime = max(200_000_000, burst)
        limits.silenceTime = 30_000_000_000
        return limits
    }
}
