import NIOCore
import NIOHTTP1

/// Every bound of an HTTP listener, with its default and the reason for it.
///
/// An answer or a log line about a bound names it (`max_sockets`, `header_bytes`, …) and its value.
public struct HTTPLimits: Sendable {
    /// `max_sockets`: sockets that a listener holds, whatever they do. When all are taken, a new one takes the place of the one that
    /// waits longest between requests or in the middle of one, of the address that has most of those; when none waits, the new
    /// one is closed as soon as it is accepted.
    public var maxSockets = 256

    /// `max_connections_per_address`: sockets of any kind that one address (of IPv6: one /64 network) may hold. A further one takes
    /// the place of that address's own that waits longest; where none waits, its first request is answered 503. High enough for a site
    /// behind one router, low enough that one machine cannot take all places.
    public var maxConnectionsPerAddress = 256

    /// `max_refusals_per_address`: sockets beyond `max_connections_per_address` that an address may hold until they are answered why. Further
    /// ones are closed as soon as they are accepted.
    public var maxRefusalsPerAddress = 16

    /// `max_handshakes`: sockets whose first request has not come yet, TLS handshakes included. A further one takes the place of the
    /// oldest of the address that has most of them.
    public var maxHandshakes = 512

    /// `header_bytes`: all header fields of one request. Larger requests get HTTP 431. 16 KiB holds a large cookie and a bearer token.
    public var headerBytes = 16 * 1024

    /// `header_count`: header fields of one request; HTTP 431.
    public var headerCount = 100

    /// `header_time`: from the accepted connection to the complete header of its first request, TLS handshake included;
    /// HTTP 408. Keeps clients that send a byte now and then from holding sockets.
    public var headerTime: TimeAmount = .seconds(10)

    /// `idle_http_time`: from one response to the complete header of the next request on the connection, which is then closed
    /// without an answer.
    public var idleHTTPTime: TimeAmount = .seconds(60)

    /// `queued_requests`: requests that a client may send ahead while an earlier one is answered. HTTP 503 to the next, after the
    /// answers to those.
    public var queuedRequests = 16

    /// `body_bytes`: the body of one request, where the route has no limit of its own; HTTP 413. 20 MiB is Sync Gateway's largest
    /// document.
    public var bodyBytes = 20 * 1024 * 1024

    /// `body_time`: from the first look at the body to its end, where it is collected; HTTP 408.
    public var bodyTime: TimeAmount = .seconds(300)

    /// `body_idle_time`: how long a client may send nothing of a body that is waited for; HTTP 408.
    public var bodyIdleTime: TimeAmount = .seconds(60)

    /// `memory_wait`: how long a body waits for room in `limits.memory` that others are about to give back; HTTP 503.
    public var memoryWait: TimeAmount = .seconds(30)

    /// `discarded_body_bytes`: how much of a body that nobody wanted is read and thrown away so that the connection can stay open.
    public var discardedBodyBytes = 64 * 1024

    /// `response_idle_time`: how long a client may take nothing of its response before the connection is cut.
    public var responseIdleTime: TimeAmount = .seconds(60)

    /// `write_high_watermark`: waiting bytes from which the writer of a response has to wait.
    public var writeHighWatermark = 256 * 1024

    /// `write_low_watermark`: waiting bytes below which it may go on.
    public var writeLowWatermark = 64 * 1024

    /// `read_buffer`: the most that is read from a socket at once. A connection that was busy keeps a buffer of this size.
    public var readBuffer = 64 * 1024

    /// `read_buffers`: what the buffers of all connections may come to. Each further connection has a smaller one, down to 4 KiB.
    public var readBuffers = 4 << 20

    /// `linger_time`: how long a refused connection may go on sending, so that it can read the refusal.
    public var lingerTime: TimeAmount = .seconds(2)

    public init() {}
}

extension HTTPLimits {
    /// The largest buffer for reading of a connection that is one of so many.
    func readBuffer(among connections: Int) -> Int { min(readBuffer, max(4_096, readBuffers / max(1, connections))) }

    /// What a decoder of requests or answers keeps to.
    package var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = headerBytes
        limits.maxHeaderListSize = headerBytes
        limits.maxHeaderFieldCount = headerCount
        return limits
    }
}
