import NIOCore
import NIOPosix
import Synchronization

let testGroup = MultiThreadedEventLoopGroup.singleton

/// The bytes of one socket, as the tests see them: what came is kept until it is asked for.
private final class Collector: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    var bytes: [UInt8] = []
    var isAtEnd = false
    private var waiting: [(count: ([UInt8], Bool) -> Int?, promise: EventLoopPromise<[UInt8]>)] = []

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes += Array(unwrapInboundIn(data).readableBytesView)
        serve()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent {
            isAtEnd = true
            serve()
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        isAtEnd = true
        serve()
    }

    func take(_ count: @escaping ([UInt8], Bool) -> Int?, _ promise: EventLoopPromise<[UInt8]>) {
        waiting.append((count, promise))
        serve()
    }

    private func serve() {
        while let first = waiting.first {
            if let count = first.count(bytes, isAtEnd) {
                waiting.removeFirst()
                first.promise.succeed(Array(bytes.prefix(count)))
                bytes.removeFirst(min(count, bytes.count))
            } else if isAtEnd {
                waiting.removeFirst()
                first.promise.fail(EndOfBytes(rest: bytes))
            } else {
                return
            }
        }
    }
}

struct EndOfBytes: Error {
    var rest: [UInt8]
}

/// A TCP connection without any protocol, for byte-exact tests.
struct RawSocket: Sendable {
    let channel: any Channel
    private let collector: NIOLoopBound<Collector>

    private init(_ channel: any Channel, _ collector: NIOLoopBound<Collector>) {
        self.channel = channel
        self.collector = collector
    }

    static func connect(port: Int, reads: Bool = true) async throws -> RawSocket {
        let channel = try await ClientBootstrap(group: testGroup)
            .channelOption(.autoRead, value: reads)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.socketOption(.so_rcvbuf), value: reads ? 256 * 1024 : 8 * 1024)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Collector()) }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return try await attach(channel)
    }

    static func attach(_ channel: any Channel) async throws -> RawSocket {
        let collector = try await channel.eventLoop.submit {
            NIOLoopBound(try channel.pipeline.syncOperations.handler(type: Collector.self), eventLoop: channel.eventLoop)
        }.get()
        return RawSocket(channel, collector)
    }

    func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }
    func send(_ bytes: [UInt8]) async throws { try await channel.writeAndFlush(ByteBuffer(bytes: bytes)) }

    func take(_ count: @escaping @Sendable ([UInt8], Bool) -> Int?) async throws -> [UInt8] {
        let promise = channel.eventLoop.makePromise(of: [UInt8].self)
        channel.eventLoop.execute { collector.value.take(count, promise) }
        return try await promise.futureResult.get()
    }

    func read(_ count: Int) async throws -> [UInt8] { try await take { bytes, _ in bytes.count >= count ? count : nil } }

    /// Up to and with the empty line.
    func readHeader() async throws -> String {
        let end = Array("\r\n\r\n".utf8)
        let bytes = try await take { bytes, _ in
            guard bytes.count >= 4 else { return nil }
            return (0...(bytes.count - 4)).first { Array(bytes[$0..<($0 + 4)]) == end }.map { $0 + 4 }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// All that comes until the peer closes.
    func readToEnd() async throws -> [UInt8] { try await take { bytes, isAtEnd in isAtEnd ? bytes.count : nil } }

    func readText() async throws -> String { String(decoding: try await readToEnd(), as: UTF8.self) }

    /// One unmasked or masked frame: first byte and payload.
    func readFrame() async throws -> (first: UInt8, payload: [UInt8]) {
        let head = try await read(2)
        var length = Int(head[1] & 0x7F)
        if length == 126 { length = try await read(2).reduce(0) { $0 << 8 | Int($1) } }
        else if length == 127 { length = try await read(8).reduce(0) { $0 << 8 | Int($1) } }
        let mask = head[1] & 0x80 != 0 ? try await read(4) : []
        var payload = try await read(length)
        if !mask.isEmpty { for i in payload.indices { payload[i] ^= mask[i % 4] } }
        return (head[0], payload)
    }

    func close() async { try? await channel.close() }
}

/// A server that hands each accepted connection to a script.
struct RawServer: Sendable {
    let channel: any Channel
    var port: Int { channel.localAddress?.port ?? 0 }

    static func start(_ script: @escaping @Sendable (RawSocket) async throws -> Void) async throws -> RawServer {
        try await start(to: try SocketAddress(ipAddress: "127.0.0.1", port: 0), script)
    }

    static func start(to address: SocketAddress, _ script: @escaping @Sendable (RawSocket) async throws -> Void) async throws -> RawServer {
        let channel = try await ServerBootstrap(group: testGroup)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Collector())
                    Task {
                        guard let socket = try? await RawSocket.attach(channel) else { return }
                        try? await script(socket)
                        await socket.close()
                    }
                }
            }
            .bind(to: address).get()
        return RawServer(channel: channel)
    }

    /// Answers each connection's request with the same text and closes.
    static func answering(_ text: String) async throws -> RawServer {
        try await start { socket in
            _ = try await socket.readHeader()
            try await socket.send(text)
        }
    }

    func stop() async { try? await channel.close() }
}

/// A client's frame: masked, unless told otherwise.
func frame(_ first: UInt8, _ payload: [UInt8], masked: Bool = true, mask: [UInt8] = [0x12, 0x34, 0x56, 0x78]) -> [UInt8] {
    var bytes = [first]
    let bit: UInt8 = masked ? 0x80 : 0
    switch payload.count {
    case 0..<126: bytes.append(bit | UInt8(payload.count))
    case 126..<65536: bytes += [bit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
    default: bytes += [bit | 127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
    }
    if masked { bytes += mask }
    for (i, byte) in payload.enumerated() { bytes.append(masked ? byte ^ mask[i % 4] : byte) }
    return bytes
}
