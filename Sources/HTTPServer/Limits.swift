import NIOCore
import NIOHTTP1

/// Every limit of an HTTP listener, with its default and the reason for it.
///
/// Answers and log lines about a limit give its name (`max_sockets`, `header_bytes`, …) and value.
public struct HTTPLimits: Sendable {
    /// `max_sockets`: sockets that a listener holds, in any state. When all are taken, a new one replaces a socket that is waiting between
    /// requests or in the middle of one: of the address with most of these, the one that has waited longest. If none is waiting, the new one
    /// is closed as soon as it is accepted.
    public var maxSockets = 256

    /// `max_connections_per_address`: sockets of any kind from one address (for IPv6: one /64 network). Another one replaces the socket from
    /// the same address that has waited longest; if none is waiting, its first request is answered with 503. High enough for a site behind
    /// one router, low enough that one machine cannot take all places.
    public var maxConnectionsPerAddress = 256

    /// `max_refusals_per_address`: sockets beyond `max_connections_per_address` that an address may hold until they have been sent the reason for
    /// their refusal. Any more are closed as soon as they are accepted.
    public var maxRefusalsPerAddress = 16

    /// `max_handshakes`: sockets whose first request has not arrived yet, including TLS handshakes. Another one replaces the oldest from the
    /// address with most of them.
    public var maxHandshakes = 512

    /// `header_bytes`: all header fields of one request. Larger requests get HTTP 431. 16 KiB is enough for a large cookie and a bearer
    /// token.
    public var headerBytes = 16 * 1024

    /// `header_count`: header fields of one request; HTTP 431.
    public var headerCount = 100

    /// `header_time`: from the accepted connection to the complete header of its first request, including the TLS handshake; HTTP 408.
    /// Prevents clients that send a byte now and then from holding sockets.
    public var headerTime: TimeAmount = .seconds(10)

    /// `idle_http_time`: from one response to the complete header of the connection's next request; the connection is then closed without an
    /// answer.
    public var idleHTTPTime: TimeAmount = .seconds(60)

    /// `queued_requests`: requests that a client may send ahead while an earlier one is being answered. The next one gets HTTP 503, after the
    /// answers to those.
    public var queuedRequests = 16

    /// `body_bytes`: the body of one request, unless the route has its own limit; HTTP 413. 20 MiB is the largest document in Sync Gateway.
    public var bodyBytes = 20 * 1024 * 1024

    /// `body_time`: from the start of reading a body to its end, if it is collected; HTTP 408.
    public var bodyTime: TimeAmount = .seconds(300)

    /// `body_idle_time`: how long a client may send nothing while its body is being read; HTTP 408.
    public var bodyIdleTime: TimeAmount = .seconds(60)

    /// `memory_wait`: how long a body waits for memory from `limits.memory` that others are about to release; HTTP 503.
    public var memoryWait: TimeAmount = .seconds(30)

    /// `discarded_body_bytes`: how much of an unwanted body is read and discarded so that the connection can stay open.
    public var discardedBodyBytes = 64 * 1024

    /// `response_idle_time`: how long a client may read nothing of its response before the connection is closed.
    public var responseIdleTime: TimeAmount = .seconds(60)

    /// `write_high_watermark`: waiting bytes above which the writer of a response has to wait.
    public var writeHighWatermark = 256 * 1024

    /// `write_low_watermark`: waiting bytes below which it may continue.
    public var writeLowWatermark = 64 * 1024

    /// `read_buffer`: the most that is read from a socket at once. A connection that was busy keeps a buffer of this size.
    public var readBuffer = 64 * 1024

    /// `read_buffers`: total for the buffers of all connections. Beyond that, connections have smaller buffers, down to 4 KiB.
    public var readBuffers = 4 << 20

    /// `linger_time`: how long a refused connection may continue to send, so that it can read the refusal.
    public var lingerTime: TimeAmount = .seconds(2)

    public init() {}
}

extension HTTPLimits {
    /// The maximum read buffer for each of this many connections.
    func readBuffer(among connections: Int) -> Int { min(readBuffer, max(4_096, readBuffers / max(1, connections))) }

    /// The limits for decoding requests or answers.
    package var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = headerBytes
        limits.maxHeaderListSize = headerBytes
        limits.maxHeaderFieldCount = headerCount
        return limits
    }
}
