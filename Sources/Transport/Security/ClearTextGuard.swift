import Interfaces
import NIOCore

/// First on a connection without TLS; notices if the other side speaks TLS, which would otherwise cause an obscure parser
/// error. It removes itself after the first bytes.
final class ClearTextGuard: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    /// Fired instead of passing the bytes on.
    private let error: ReplicationError

    /// For an accepted connection.
    static func server() -> ClearTextGuard {
        ClearTextGuard(
            error: ReplicationError(
                domain: .tls, code: 6,
                message: "a client spoke TLS to this port, which speaks plain HTTP: use http: or ws:, or enable TLS here"))
    }

    init(error: ReplicationError) {
        self.error = error
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        guard let first = bytes.readableBytesView.first else { return }
        // A TLS handshake record or an alert; HTTP begins with neither.
        if first == 0x16 || first == 0x15 {
            context.fireErrorCaught(error)
        } else {
            context.fireChannelRead(data)
            context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        }
    }
}
