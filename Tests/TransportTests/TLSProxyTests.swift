import Glibc
import Interfaces
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import TLS
@testable import Transport

/// A proxy that is itself reached over TLS.
@Suite("Proxies over TLS", .timeLimit(.minutes(10))) struct TLSProxyTests {
    private static let made = Result {
        try ["hub", "proxy"].map { name in
            try SelfSigning.make(
                IdentityRequest(names: AlternativeNames(dns: ["localhost"], ip: ["127.0.0.1"])), label: IdentityLabel(name), now: Int64(time(nil)))
        }
    }

    private var hub: Identity { get throws { try Self.made.get()[0] } }
    private var proxy: Identity { get throws { try Self.made.get()[1] } }

    private func layer(_ rule: ServerAuthentication) throws -> SecureLayer {
        .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: rule))))
    }

    private func trusting(_ identity: Identity) -> ServerAuthentication { ServerAuthentication(trustsSystemRoots: false, extraRoots: [identity.leaf]) }

    /// A listener, with TLS or without, and a proxy before it.
    private func withProxy(
        tls: Bool, _ body: (_ hub: WebSocketListener, _ delegate: TestDelegate, _ proxy: Int, _ asked: @escaping @Sendable () -> [String]) async throws -> Void
    ) async throws {
        var configuration = WebSocketListener.Configuration(interface: "127.0.0.1", port: 0)
        if tls { configuration.secureLayer = .tls(server: CurrentContext(try TLSContext(server: TLSServerOptions(identity: hub)))) }
        let delegate = TestDelegate()
        let listener = try await WebSocketListener.bind(configuration, delegate: delegate, group: testGroup, logger: quietLogger())
        let asked = Mutex([String]())
        let context = try TLSContext(server: TLSServerOptions(identity: proxy))
        let server = try await ServerBootstrap(group: testGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        try TLSHandler(server: context), Tunnel { head in asked.withLock { $0.append(head) } },
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do { try await body(listener, delegate, server.localAddress?.port ?? 0) { asked.withLock { $0 } } } catch {
            try? await server.close()
            await listener.stop()
            throw error
        }
        try? await server.close()
        await listener.stop()
    }

    private func client(_ port: Int, tls: Bool, through proxy: Int, trusting rule: ServerAuthentication) throws -> WebSocketClient {
        var configuration = WebSocketClient.Configuration(url: try EndpointURL("\(tls ? "wss" : "ws")://127.0.0.1:\(port)/db"))
        configuration.secureLayer = try layer(ServerAuthentication(pins: [.certificate(try hub.leaf)]))
        configuration.proxy = ProxyServer(.https, host: "localhost", port: proxy, credentials: BasicCredentials(username: "gateway", password: "hunter"))
        configuration.proxy?.secureLayer = try layer(rule)
        return WebSocketClient(configuration, group: testGroup, environment: .system)
    }

    @Test("the target's TLS runs inside the proxy's, and the certificate that is reported is the target's", arguments: [true, false])
    func both(_ tls: Bool) async throws {
        try await withProxy(tls: tls) { listener, delegate, port, asked in
            let transport = try await client(listener.port, tls: tls, through: port, trusting: trusting(proxy)).connect()
            let recorder = try await transport.record()
            let accepted = try #require(await delegate.nextTransport())
            accepted.receiver.echoes = true
            let messages = (0..<50).map { [UInt8](repeating: UInt8($0), count: $0 % 10 == 0 ? 100_000 : $0) }
            try await transport.send(messages)
            #expect(await recorder.messages(messages.count) == messages)
            let shown = try #require(transport as? WebSocketConnection).securePeer?.certificates
            #expect(try shown == (tls ? [hub.leaf.der] : nil))
            let head = try #require(asked().first)
            #expect(head.hasPrefix("CONNECT 127.0.0.1:\(listener.port) HTTP/1.1\r\n") && head.contains("Proxy-Authorization: Basic "), "\(head)")
            transport.drop()
        }
    }

    @Test("a proxy with an untrusted certificate is sent nothing, not even the login; the error names the proxy and not the target")
    func stranger() async throws {
        try await withProxy(tls: true) { listener, _, port, asked in
            let error = try #require(await connectionError(client(listener.port, tls: true, through: port, trusting: trusting(hub))))
            #expect(error.domain == .tls && error.message.contains("localhost:\(port)"), "\(error)")
            #expect(asked().isEmpty)
        }
    }

    /// Connects to the port that it is asked for, on loopback, and passes on what comes.
    private final class Tunnel: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let asked: (String) -> Void
        private var head = ""
        private var far: (any Channel)?

        init(_ asked: @escaping (String) -> Void) { self.asked = asked }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            if let far { return far.writeAndFlush(bytes, promise: nil) }
            head += String(buffer: bytes)
            guard head.hasSuffix("\r\n\r\n") else { return }
            asked(head)
            let place = head.split(separator: " ").dropFirst().first.map(String.init) ?? ""
            let port = place.lastIndex(of: ":").flatMap { Int(place[place.index(after: $0)...]) } ?? 0
            let near = context.channel
            let me = NIOLoopBound(self, eventLoop: context.eventLoop)
            ClientBootstrap(group: context.eventLoop)
                .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Back(near)) } }
                .connect(host: "127.0.0.1", port: port)
                .whenSuccess { channel in
                    me.value.far = channel
                    near.writeAndFlush(ByteBuffer(string: "HTTP/1.1 200 Connection established\r\n\r\n"), promise: nil)
                }
        }

        func channelInactive(context: ChannelHandlerContext) { far?.close(promise: nil) }
    }

    private final class Back: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let near: any Channel

        init(_ near: any Channel) { self.near = near }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { near.writeAndFlush(unwrapInboundIn(data), promise: nil) }
        func channelInactive(context: ChannelHandlerContext) { near.close(promise: nil) }
    }
}
