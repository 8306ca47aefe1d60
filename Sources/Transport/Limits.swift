import NIOCore

/// Every bound that the transports enforce on what comes from the network, with its default and the reason for it.
///
/// An error or a log line about a bound names the property (`max_connections`, `header_bytes`, …) and its value.
public struct TransportLimits: Sendable {
    /// `max_connections`: WebSocket connections that a listener carries at once. One more gets HTTP 503 before the
    /// upgrade, which makes Couchbase Lite wait with growing delays.
    public var maxConnections = 1000

    /// `max_http_connections`: further sockets that a listener holds, for plain HTTP and for handshakes under way. A socket
    /// above `max_connections + max_http_connections` is closed as soon as it is accepted.
    public var maxHTTPConnections = 256

    /// `max_connections_per_address`: sockets of any kind that one address (of IPv6: one /64 network) may hold. Further ones
    /// are closed as soon as they are accepted. High enough for a site behind one router, low enough that one machine cannot
    /// take all places.
    public var maxConnectionsPerAddress = 256

    /// `max_handshakes`: sockets whose first request has not come yet, TLS handshakes included. Further ones are closed as soon
    /// as they are accepted; with `header_time` it bounds what clients that send nothing can hold.
    public var maxHandshakes = 512

    /// `header_bytes`: all header fields of one HTTP request or response. Larger requests get HTTP 431.
    /// 16 KiB holds a large cookie and a bearer token.
    public var headerBytes = 16 * 1024

    /// `header_count`: header fields of one HTTP request or response; HTTP 431.
    public var headerCount = 100

    /// `header_time`: from the accepted connection to the complete header of its first request, TLS handshake included;
    /// HTTP 408. Keeps clients that send a byte now and then from holding sockets.
    public var headerTime: TimeAmount = .seconds(10)

    /// `body_bytes`: the body of one HTTP request; HTTP 413. 20 MiB is Sync Gateway's largest document.
    public var bodyBytes = 20 * 1024 * 1024

    /// `total_body_bytes`: bodies that a listener holds at once over all its connections; HTTP 503 above it.
    public var totalBodyBytes = 256 * 1024 * 1024

    /// `body_time`: from the header of an HTTP request to the end of its body; HTTP 408.
    public var bodyTime: TimeAmount = .seconds(300)

    /// `idle_http_time`: from one HTTP response to the complete header of the next request on the connection, which is then
    /// closed silently.
    public var idleHTTPTime: TimeAmount = .seconds(60)

    /// `message_bytes`: one WebSocket message that comes in, after its fragments are joined; close 1009 above it.
    /// Couchbase Lite draws the line at 1 MiB too; BLIP frames have 16 KiB.
    public var messageBytes = 1024 * 1024

    /// `outbound_bytes`: what may wait for a peer that does not read. Callers stop at ``writeHighWatermark``; a connection
    /// that reaches this bound all the same is closed with 1008.
    public var outboundBytes = 16 * 1024 * 1024

    /// `write_high_watermark`: waiting bytes from which a connection calls itself not writable.
    public var writeHighWatermark = 256 * 1024

    /// `write_low_watermark`: waiting bytes below which it is writable again.
    public var writeLowWatermark = 64 * 1024

    /// `close_time`: how long the peer may take to answer a CLOSE frame before the socket is dropped. LiteCore's value.
    public var closeTime: TimeAmount = .seconds(5)

    /// `linger_time`: how long a refused HTTP connection may go on sending, so that it can read the refusal.
    public var lingerTime: TimeAmount = .seconds(2)

    /// `connect_time`: name resolution, TCP, TLS and HTTP upgrade of an outgoing connection. LiteCore's value.
    public var connectTime: TimeAmount = .seconds(15)

    /// `pong_time`: how long the answer to a PING may take, never more than the heartbeat less one second. LiteCore's value.
    public var pongTime: TimeAmount = .seconds(20)

    /// `redirects`: HTTP redirects that the client follows. LiteCore's value.
    public var redirects = 10

    /// `error_body_bytes`: how much of a refusal's body the client reads for its reason.
    public var errorBodyBytes = 16 * 1024

    public init() {}
}
