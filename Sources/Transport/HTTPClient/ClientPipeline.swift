import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1

/// The channel pipeline of an ``HTTPClient``, once connected.
struct ClientPipeline: Sendable {
    struct Opened: Sendable {
        var patience: NIOLoopBound<PeerTimeoutHandler>
        var stream: ClientConnection.Stream
    }

    private let client: HTTPClient
    let ready: HTTPClient.Ready

    init(_ client: HTTPClient) {
        self.client = client
        ready = HTTPClient.Ready(client.onSecured)
    }

    /// - Parameter deadline: the request's, if it comes before the end of `connect_time`.
    func connect(_ deadline: HTTPClient.Deadline?) async throws -> Opened {
        let shown = "\(client.target)"
        let end = NIODeadline.now() + client.connectTime
        var pipeline = OutgoingPipeline(
            target: client.target, shown: shown, proxy: client.proxy, networkInterface: client.networkInterface, bandwidth: client.bandwidth,
            secureLayer: client.secureLayer,
            speaksTLS: ReplicationError(domain: .tls, code: 6, message: "\(shown): the server speaks TLS: use https:"), limits: client.limits,
            deadline: end, late: OutgoingPipeline.late(shown, client.proxy, client.connectTime),
            silent: OutgoingPipeline.silent(shown, client.proxy, client.connectTime), resolver: client.resolver)
        if let deadline, deadline.time < end { (pipeline.deadline, pipeline.late, pipeline.silent) = (deadline.time, deadline.error, nil) }
        return try await pipeline.open(client.group.next()) { channel, promise in promise.succeed(try handlers(channel)) }
    }

    /// The result must be used: NIO traps if a writer is never finished.
    private func handlers(_ channel: any Channel) throws -> Opened {
        let pipeline = channel.pipeline.syncOperations
        let patience = PeerTimeoutHandler()
        // First in the pipeline, so that it sees the socket's traffic, below TLS.
        try pipeline.addHandler(patience, position: .first)
        if client.secureLayer != nil { try pipeline.addHandler(HTTPClient.ReadyHandler(ready)) }
        try pipeline.addHandler(HTTPRequestEncoder())
        let decoder = HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: client.limits.http.decoder)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        return Opened(
            patience: NIOLoopBound(patience, eventLoop: channel.eventLoop),
            stream: try ClientConnection.Stream(wrappingChannelSynchronously: channel))
    }
}
