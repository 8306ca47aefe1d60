import Environment
import Interfaces
import NIOCore
import NIOHTTP1

/// One attempt to open a WebSocket at one address: connection and upgrade share a deadline.
struct ConnectionAttempt: Sendable {
    enum Outcome: Sendable {
        case upgraded(WebSocketConnection)
        case response(HandshakeResponse)
    }

    let url: EndpointURL
    let request: HTTPRequestHead
    let configuration: WebSocketClient.Configuration
    let deadline: NIODeadline
    let eventLoop: any EventLoop
    /// For the keys that mask frames.
    let random: any RandomSource

    func run() async throws -> Outcome {
        guard !url.isSecure || configuration.secureLayer != nil else {
            throw ReplicationError(domain: .tls, code: 6, message: "\(url): no TLS is configured for \(url.scheme):")
        }
        let limits = configuration.limits
        let pipeline = OutgoingPipeline(
            target: .tcp(host: url.host, port: url.port), shown: "\(url)", proxy: configuration.proxy,
            networkInterface: configuration.networkInterface, bandwidth: configuration.bandwidth, secureLayer: url.isSecure ? configuration.secureLayer : nil,
            speaksTLS: .speaksTLS(url), userAgent: configuration.userAgent, limits: limits, deadline: deadline,
            late: OutgoingPipeline.late("\(url)", configuration.proxy, limits.connectTime),
            silent: OutgoingPipeline.silent("\(url)", configuration.proxy, limits.connectTime))
        return try await pipeline.open(eventLoop) { try addHandshake($0, $1) }
    }

    private func addHandshake(_ channel: any Channel, _ promise: EventLoopPromise<Outcome>) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(HTTPRequestEncoder())
        let decoder = HTTPResponseDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: configuration.limits.http.decoder)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        try pipeline.addHandler(ClientHandshakeHandler(attempt: self, promise: promise))
    }
}
