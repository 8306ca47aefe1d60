import Glibc
import Interfaces
import MessageEndpoints
import NIOCore

/// A message endpoint's connection over a byte channel: a socket, a child's pipes, a device.
///
/// Sendable although mutable: all mutable state is confined to `eventLoop`.
final class StreamConnection: MessageEndpointConnection, @unchecked Sendable {
    let eventLoop: any EventLoop
    let peerDescription: String
    /// `SO_PEERCRED` of a Unix domain socket.
    let peerUser: uid_t?
    private let makeChannel: @Sendable (StreamConnection) -> EventLoopFuture<any Channel>
    /// How long closing waits for written data to be sent.
    private let lingers: TimeAmount
    private let beforeClose: @Sendable () -> Void
    private let onClose: @Sendable () -> Void
    private var channel: (any Channel)?
    private var replicator: (any ReplicatorConnection)?
    private var isClosed = false

    init(
        _ peerDescription: String, eventLoop: any EventLoop, peerUser: uid_t? = nil, lingers: TimeAmount = .zero,
        beforeClose: @escaping @Sendable () -> Void = {}, onClose: @escaping @Sendable () -> Void = {},
        makeChannel: @escaping @Sendable (StreamConnection) -> EventLoopFuture<any Channel>
    ) {
        self.eventLoop = eventLoop
        self.peerDescription = peerDescription
        self.peerUser = peerUser
        self.lingers = lingers
        self.beforeClose = beforeClose
        self.onClose = onClose
        self.makeChannel = makeChannel
    }

    func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        eventLoop.preconditionInEventLoop()
        replicator = connection
        makeChannel(self).hop(to: eventLoop).whenComplete { result in
            switch result {
            case .success(let channel):
                self.channel = channel
                guard !self.isClosed else { return self.end(channel) }
                completion(true, nil)
            case .failure(let error):
                let cause = NetworkErrors.replicationError(error, target: self.peerDescription)
                completion(false, MessagingError(cause.message, isRecoverable: cause.isTransient || cause.isNetworkDependent, cause: cause))
            }
        }
    }

    func send(_ message: ByteBuffer, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        guard let channel, !isClosed else { return completion(false, MessagingError("\(peerDescription): not open", isRecoverable: true)) }
        channel.writeAndFlush(message).whenComplete { [peerDescription] result in
            switch result {
            case .success: completion(true, nil)
            case .failure(let error): completion(false, MessagingError("\(peerDescription): \(NetworkErrors.describe(error))", isRecoverable: true))
            }
        }
    }

    func close(error: MessagingError?, completion: @escaping @Sendable () -> Void) {
        let work: @Sendable () -> Void = {
            guard !self.isClosed else { return completion() }
            self.isClosed = true
            self.replicator = nil
            if let channel = self.channel { self.end(channel) } else { self.onClose() }
            completion()
        }
        if eventLoop.inEventLoop { work() } else { eventLoop.execute(work) }
    }

    private func end(_ channel: any Channel) {
        let close: @Sendable () -> Void = { [beforeClose, onClose] in
            if channel.isActive { beforeClose() }
            channel.close(mode: .all).whenComplete { _ in onClose() }
        }
        if lingers > .zero { eventLoop.scheduleTask(in: lingers, close) } else { eventLoop.execute(close) }
    }

    // MARK: - From the channel

    fileprivate func received(_ bytes: ByteBuffer) { replicator?.receive(bytes) }

    fileprivate func gone(_ why: String) {
        let text = "\(peerDescription): \(why)"
        replicator?.close(error: MessagingError(text, isRecoverable: true, cause: ReplicationError(network: .connectionReset, message: text)))
    }
}

/// Passes a channel's bytes to its connection.
final class StreamHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: StreamConnection

    init(_ connection: StreamConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection.received(unwrapInboundIn(data)) }

    func channelInactive(context: ChannelHandlerContext) { connection.gone("the stream has ended") }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        connection.gone(NetworkErrors.describe(error))
        context.close(promise: nil)
    }
}
