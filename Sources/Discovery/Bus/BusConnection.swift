import Encodings
import Glibc
import NIOCore
import NIOPosix

/// A connection to the system's message bus: calls, and subscribed signals.
///
/// Whatever a daemon has created for a client on the bus ends with the connection, even if the process is killed: Avahi then announces
/// the departure for it.
final class BusConnection: Sendable {
    /// `bus_answer`: seconds that a call may take. Avahi itself gives up a resolution after five.
    static let answerSeconds: Int64 = 15
    /// `bus_signals`: unprocessed signals; any more are dropped, which bounds the effect of a flood.
    static let mostSignals = 4096

    /// Ends with the connection.
    let signals: AsyncStream<BusMessage>
    private let channel: any Channel

    private init(channel: any Channel, signals: AsyncStream<BusMessage>) {
        (self.channel, self.signals) = (channel, signals)
    }

    /// The address of the system bus, according to the specification.
    static var systemPath: String {
        if let address = getenv("DBUS_SYSTEM_BUS_ADDRESS").map({ String(cString: $0) }) {
            for part in address.split(separator: ";") where part.hasPrefix("unix:") {
                for pair in part.dropFirst(5).split(separator: ",") where pair.hasPrefix("path=") { return String(pair.dropFirst(5)) }
            }
        }
        return "/run/dbus/system_bus_socket"
    }

    static func open(group: any EventLoopGroup) async throws(DiscoveryError) -> BusConnection {
        let path = systemPath
        let (signals, continuation) = AsyncStream.makeStream(of: BusMessage.self, bufferingPolicy: .bufferingOldest(mostSignals))
        let loop = group.next()
        let ready = loop.makePromise(of: Void.self)
        let channel: any Channel
        do {
            channel = try await ClientBootstrap(group: loop).connectTimeout(.seconds(5)).channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(BusHandler(ready: ready, signals: continuation))
                }
            }.connect(unixDomainSocketPath: path).get()
        } catch {
            ready.fail(error)
            throw .noBus(path: path, reason: (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)")
        }
        let connection = BusConnection(channel: channel, signals: signals)
        let patience = loop.scheduleTask(in: .seconds(answerSeconds)) { ready.fail(DiscoveryError.noAnswer(seconds: Int(answerSeconds))) }
        defer { patience.cancel() }
        do {
            try await ready.futureResult.get()
            _ = try await connection.call(.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello"))
        } catch {
            connection.close()
            throw .noBus(path: path, reason: "\(error)")
        }
        return connection
    }

    /// - Returns: the contents of the reply.
    /// - Throws: ``DiscoveryError/closed`` also if the task is cancelled.
    func call(_ message: BusMessage) async throws(DiscoveryError) -> [BusValue] {
        let promise = channel.eventLoop.makePromise(of: BusMessage.self)
        channel.writeAndFlush(BusHandler.Request(message: message, answer: promise), promise: nil)
        // A channel that is already closed drops what is written.
        channel.closeFuture.whenComplete { _ in promise.fail(DiscoveryError.closed) }
        do {
            return try await withTaskCancellationHandler {
                try await promise.futureResult.get().body
            } onCancel: {
                promise.fail(DiscoveryError.closed)
            }
        } catch let error as DiscoveryError { throw error } catch { throw .closed }
    }

    func close() { channel.close(promise: nil) }

    deinit { channel.close(promise: nil) }
}

/// Logs in, splits the stream into messages, and delivers replies to their callers.
private final class BusHandler: ChannelDuplexHandler {
    struct Request: Sendable {
        var message: BusMessage
        var answer: EventLoopPromise<BusMessage>
    }

    typealias InboundIn = ByteBuffer
    typealias OutboundIn = Request
    typealias OutboundOut = ByteBuffer

    private let ready: EventLoopPromise<Void>
    private let signals: AsyncStream<BusMessage>.Continuation
    private var isLoggedIn = false
    private var received: [UInt8] = []
    private var serial: UInt32 = 0
    private var waiting: [UInt32: (answer: EventLoopPromise<BusMessage>, deadline: Scheduled<Void>)] = [:]

    init(ready: EventLoopPromise<Void>, signals: AsyncStream<BusMessage>.Continuation) {
        (self.ready, self.signals) = (ready, signals)
    }

    func channelActive(context: ChannelHandlerContext) {
        // The daemon checks that the socket's credentials are the ones we claim.
        send(Array("\0AUTH EXTERNAL \(Hex.encode(Array(String(geteuid()).utf8)))\r\n".utf8), context)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += Array(unwrapInboundIn(data).readableBytesView)
        do throws(DiscoveryError) {
            if !isLoggedIn { try logIn(context) }
            if isLoggedIn { try takeMessages() }
        } catch { end(context, error) }
    }

    private func logIn(_ context: ChannelHandlerContext) throws(DiscoveryError) {
        guard let end = received.firstIndex(of: UInt8(ascii: "\n")) else {
            guard received.count < 1024 else { throw .malformed }
            return
        }
        let line = String(decoding: received[..<end], as: UTF8.self)
        received.removeSubrange(...end)
        guard line.hasPrefix("OK ") else { throw .refused(name: "AUTH EXTERNAL", message: "the bus does not admit this user") }
        isLoggedIn = true
        send(Array("BEGIN\r\n".utf8), context)
        ready.succeed()
    }

    private func takeMessages() throws(DiscoveryError) {
        var start = 0
        while let length = try BusMessage.length(received[start...]), received.count - start >= length {
            let message = try BusMessage.decode(received[start..<start + length])
            start += length
            if let message { take(message) }
        }
        received.removeSubrange(..<start)
    }

    private func take(_ message: BusMessage) {
        switch message.kind {
        case .signal: signals.yield(message)
        case .call: break // nobody has reason to call us
        case .reply, .error:
            guard let serial = message.replySerial, let (answer, deadline) = waiting.removeValue(forKey: serial) else { return }
            deadline.cancel()
            guard message.kind == .error else { return answer.succeed(message) }
            let name = message.errorName ?? ""
            let isAbsent = ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"].contains(name)
            answer.fail(isAbsent ? DiscoveryError.noAvahi : .refused(name: name, message: message.body.first?.text ?? "the bus says no"))
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let request = unwrapOutboundIn(data)
        serial += 1
        var message = request.message
        message.serial = serial
        let number = serial
        let deadline = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(BusConnection.answerSeconds)) {
            guard let late = self.waiting.removeValue(forKey: number) else { return }
            late.answer.fail(DiscoveryError.noAnswer(seconds: Int(BusConnection.answerSeconds)))
        }
        waiting[number] = (request.answer, deadline)
        context.write(wrapOutboundOut(ByteBuffer(bytes: message.encoded())), promise: promise)
    }

    private func send(_ bytes: [UInt8], _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(context, .closed) }
    func channelInactive(context: ChannelHandlerContext) { end(context, .closed) }

    private func end(_ context: ChannelHandlerContext, _ error: DiscoveryError) {
        ready.fail(error)
        signals.finish()
        for (_, entry) in waiting {
            entry.deadline.cancel()
            entry.answer.fail(error)
        }
        waiting = [:]
        context.close(promise: nil)
    }
}
