import Interfaces
import NIOCore
import TLS

extension SecureLayer {
    /// TLS for a listener. Each connection uses the context that is current when it is accepted.
    package static func tls(server context: CurrentContext) -> SecureLayer {
        SecureLayer { role in
            guard case .server = role else { throw TLSError(.configuration, "a listener's TLS context cannot connect") }
            return [try TLSHandler(server: context.value), TLSLayerAdapter(target: nil)]
        }
    }

    /// TLS for a replicator or an HTTP client. Each connection uses the context that is current when it is made.
    package static func tls(client context: CurrentContext) -> SecureLayer {
        SecureLayer { role in
            guard case .client(let host, let port) = role else { throw TLSError(.configuration, "a client's TLS context cannot serve") }
            let endpoint = TLSEndpoint(host: host, port: port)
            return [try TLSHandler(client: context.value, endpoint: endpoint), TLSLayerAdapter(target: endpoint.shown)]
        }
    }
}

extension TLSEndpoint {
    var shown: String { "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)" }
}

/// Translates the errors and events of ``TLSHandler`` into those of this module.
private final class TLSLayerAdapter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// The server that a client connects to, for its errors.
    private let target: String?

    init(target: String?) {
        self.target = target
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let completed = event as? TLSHandshakeCompleted else { return context.fireUserInboundEventTriggered(event) }
        context.fireUserInboundEventTriggered(
            SecurePeer(certificates: completed.certificates.map(\.der), summary: completed.summary, trust: completed.trust))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? TLSError else { return context.fireErrorCaught(error) }
        context.fireErrorCaught(ReplicationError(error, target: target))
    }
}
