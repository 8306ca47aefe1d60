import HTTPServer
import NIOCore

/// Every bound that the transports enforce on what comes from the network, with its default and the reason for it.
///
/// An error or a log line about a bound names the property (`max_connections`, `header_bytes`, …) and its value.
public struct TransportLimits: Sendable {
    /// `max_connections`: WebSocket connections that a listener carries at once. One more gets HTTP 503 before the
    /// upgrade, which makes Couchbase Lite wait with growing delays.
    public var maxConnections = 1000

    /// `max_http_connections`: further sockets that a listener holds, for plain HTTP and for handshakes under way. A socket
    /// above `max_connections + max_http_connections` takes the place of one that waits, or is closed as soon as it is accepted.
    public var maxHTTPConnections = 256

    /// Of the HTTP side of a listener. `header_bytes` and `header_count` hold for the answers that a client reads, too; `max_sockets` of
    /// a listener is `max_connections + max_http_connections`.
    public var http = HTTPLimits()

    /// `message_bytes`: one WebSocket message that comes in, after its fragments are joined; close 1009 above it.
    /// Couchbase Lite draws the line at 1 MiB too; BLIP frames have 16 KiB.
    public var messageBytes = 1024 * 1024

    /// `outbound_bytes`: what may wait for a peer that does not read. Callers stop at ``writeHighWatermark``; a connection
    /// that reaches this bound all the same is closed with 4001.
    public var outboundBytes = 16 * 1024 * 1024

    /// `write_high_watermark`: waiting bytes from which a connection calls itself not writable.
    public var writeHighWatermark = 64 * 1024

    /// `write_low_watermark`: waiting bytes below which it is writable again.
    public var writeLowWatermark = 16 * 1024

    /// `close_time`: how long the peer may take to answer a CLOSE frame before the socket is dropped. LiteCore's value.
    public var closeTime: TimeAmount = .seconds(5)

    /// `connect_time`: name resolution, TCP, TLS and HTTP upgrade of an outgoing connection. LiteCore's value.
    public var connectTime: TimeAmount = .seconds(15)

    /// `unacknowledged_time`: how long what was sent may stay without the peer's acknowledgement before the system ends the connection
    /// (TCP_USER_TIMEOUT); left alone, Linux goes on for a quarter of an hour.
    public var unacknowledgedTime: TimeAmount = .seconds(60)

    /// `pong_time`: how long the answer to a PING may take, never more than the heartbeat less one second. LiteCore's value.
    public var pongTime: TimeAmount = .seconds(20)

    /// `redirects`: HTTP redirects that the client follows. LiteCore's value.
    public var redirects = 10

    /// `error_body_bytes`: how much of a refusal's body the client reads for its reason.
    public var errorBodyBytes = 16 * 1024

    public init() {}
}
