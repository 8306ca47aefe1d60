import HTTPServer
import NIOCore

/// Every limit that the transports enforce on network input, with its default and the reason for it.
///
/// Errors and log lines about a limit give its name (`max_connections`, `header_bytes`, …) and value.
public struct TransportLimits: Sendable {
    /// `max_connections`: concurrent WebSocket connections of a listener. One more gets HTTP 503 before the upgrade, which makes
    /// Couchbase Lite retry with growing delays.
    public var maxConnections = 1000

    /// `max_http_connections`: further sockets of a listener, for plain HTTP and for handshakes in progress. A socket beyond
    /// `max_connections + max_http_connections` replaces one that waits, or is closed as soon as it is accepted.
    public var maxHTTPConnections = 256

    /// For a listener's HTTP side. `header_bytes` and `header_count` also apply to answers that a client reads; a listener's
    /// `max_sockets` is `max_connections + max_http_connections`.
    public var http = HTTPLimits()

    /// `message_bytes`: one incoming WebSocket message, after its fragments are joined; beyond it, close 1009. Couchbase Lite has the
    /// same limit of 1 MiB; BLIP frames have 16 KiB.
    public var messageBytes = 1024 * 1024

    /// `outbound_bytes`: data waiting for a peer that does not read. Callers stop at ``writeHighWatermark``; a connection that reaches
    /// this limit nevertheless is closed with 4001.
    public var outboundBytes = 16 * 1024 * 1024

    /// `write_high_watermark`: waiting bytes above which a connection is not writable.
    public var writeHighWatermark = 64 * 1024

    /// `write_low_watermark`: waiting bytes below which it is writable again.
    public var writeLowWatermark = 16 * 1024

    /// `close_time`: how long the peer may take to answer a CLOSE frame before the socket is dropped. The same as in LiteCore.
    public var closeTime: TimeAmount = .seconds(5)

    /// `connect_time`: name resolution, TCP, TLS and HTTP upgrade of an outgoing connection. The same as in LiteCore.
    public var connectTime: TimeAmount = .seconds(15)

    /// `unacknowledged_time`: how long sent data may stay unacknowledged by the peer before the system ends the connection
    /// (TCP_USER_TIMEOUT); by default, Linux keeps trying for a quarter of an hour.
    public var unacknowledgedTime: TimeAmount = .seconds(60)

    /// `pong_time`: how long the answer to a PING may take; at most the heartbeat less one second. The same as in LiteCore.
    public var pongTime: TimeAmount = .seconds(20)

    /// `redirects`: HTTP redirects that the client follows. The same as in LiteCore.
    public var redirects = 10

    /// `error_body_bytes`: how much of a refusal's body the client reads to find the reason.
    public var errorBodyBytes = 16 * 1024

    public init() {}
}
