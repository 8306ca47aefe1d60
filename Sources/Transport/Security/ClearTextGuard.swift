import Interfaces
import NIOCore

/// Stands first on a connection without TLS and notices when the other side speaks it, which would else be an obscure parser
/// error. It leaves after the first bytes.
final class ClearTextGuard: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    /// Thrown in place of the bytes.
    private let error: ReplicationError

    /// On an accepted connection.
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
