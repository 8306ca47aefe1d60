import Glibc
import HTTPServer
import Interfaces
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import TLS
@testable import Transport

/// The listener and the clients over real TLS.
@Suite(.timeLimit(.minutes(10))) struct TLSTransportTests {
    private static let made = Result {
        try (SelfSigning.make(IdentityRequest(names: AlternativeNames(dns: ["localhost"], ip: ["127.0.0.1"])), label: IdentityLabel("here"), now: Int64(time(nil))),
            SelfSigning.make(IdentityRequest(names: AlternativeNames(dns: ["localhost"])), label: IdentityLabel("other"), now: Int64(time(nil))))
    }

    private var identity: Identity { get throws { try Self.made.get().0 } }
    private var other: Identity { get throws { try Self.made.get().1 } }

    /// A listener with TLS, and what it logged.
    private func withTLSListener(
        _ delegate: TestDelegate = TestDelegate(), tls: Bool = true, _ change: (inout TLSServerOptions) -> Void = { _ in },
        _ body: (WebSocketListener, TestDelegate, LogLines) async throws -> Void
    ) async throws {
        var options = TLSServerOptions(identity: try identity)
        change(&options)
        var configuration = WebSocketListener.Configuration(interface: "127.0.0.1", port: 0)
        if tls { configuration.secureLayer = .tls(server: CurrentContext(try TLSContext(server: options))) }
        let lines = LogLines()
        let logger = Logger(label: "test") { _ in LogLines.Handler(lines: lines) }
        let listener = try await WebSocketListener.bind(configuration, delegate: delegate, group: testGroup, logger: logger)
        do {
            try await body(listener, delegate, lines)
        } catch {
            await listener.stop()
            throw error
        }
        await listener.stop()
    }

    private func layer(_ rule: ServerAuthentication, identity: Identity? = nil) throws -> SecureLayer {
        .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: rule, identity: identity))))
    }

    private func webSocket(_ port: Int, _ rule: ServerAuthentication, scheme: String = "wss", identity: Identity? = nil) throws -> WebSocketClient {
        var configuration = WebSocketClient.Configuration(url: try EndpointURL("\(scheme)://localhost:\(port)/db"))
        configuration.secureLayer = try layer(rule, identity: identity)
        return WebSocketClient(configuration, group: testGroup, environment: .system)
    }

    private func pinned() throws -> ServerAuthentication { ServerAuthentication(pins: [.certificate(try identity.leaf)]) }

    @Test func aPinnedClientReplicates() async throws {
        try await withTLSListener { listener, delegate, _ in
            let transport = try await webSocket(listener.port, pinned()).connect()
            let recorder = try await transport.record()
            let accepted = try #require(await delegate.nextTransport())
            #expect(accepted.request.securePeer?.certificates == [])
            let connection = try #require(transport as? WebSocketConnection)
            #expect(connection.securePeer?.certificates == [try identity.leaf.der])
            #expect(connection.securePeer?.summary.hasPrefix("TLSv1.3 ") == true)
            #expect(connection.securePeer?.trust == .pinnedCertificate)
            accepted.receiver.echoes = true
            // Several records each, and many small ones.
            let messages = (0..<200).map { [UInt8](repeating: UInt8($0), count: $0 % 10 == 0 ? 100_000 : $0) }
            try await transport.send(messages)
            #expect(await recorder.messages(messages.count) == messages)
            await listener.stop(code: 4001)
            #expect(await recorder.end()?.code == 4001)
        }
    }

    @Test func refusedServersAreErrorsInTheFieldsCodes() async throws {
        try await withTLSListener { listener, _, lines in
            let selfSigned = try #require(await connectionError(webSocket(listener.port, ServerAuthentication(trustsSystemRoots: false))))
            #expect(selfSigned.domain == .tls && selfSigned.publicCode == 5011 && !selfSigned.isTransient)
            #expect(selfSigned.message.hasPrefix("localhost:\(listener.port): the server's certificate CN="))
            let pin = try identity.leaf.pin
            #expect(selfSigned.message.contains("self-signed") && selfSigned.message.contains("pinned_server_certificate: \(pin)"))
            let wrongPin = try #require(await connectionError(webSocket(listener.port, ServerAuthentication(pins: [.certificate(other.leaf)]))))
            #expect(wrongPin.domain == .tls && wrongPin.publicCode == 5008)
            #expect(await connectionError(try webSocket(listener.port, ServerAuthentication(acceptsOnlySelfSigned: true))) == nil)
            var trusted = ServerAuthentication(trustsSystemRoots: false, extraRoots: [try identity.leaf])
            #expect(await connectionError(try webSocket(listener.port, trusted)) == nil)
            // The listener's operator reads of it too.
            #expect(await lines.contains("TLS connection failed"))
            trusted.extraRoots = [try other.leaf]
            #expect(await connectionError(try webSocket(listener.port, trusted))?.publicCode == 5011)
        }
    }

    @Test func clientCertificatesReachTheDelegate() async throws {
        let wanted = ClientCertificates(mode: .require, roots: nil)
        try await withTLSListener(TestDelegate(), { $0.clientCertificates = wanted }) { listener, delegate, _ in
            let transport = try await webSocket(listener.port, pinned(), identity: other).connect()
            let accepted = try #require(await delegate.nextTransport())
            #expect(accepted.request.securePeer?.certificates == [try other.leaf.der])
            transport.drop()
            let none = try #require(await connectionError(webSocket(listener.port, pinned())))
            #expect(none.domain == .tls && none.publicCode == 5009, "\(none)")
        }
    }

    @Test func plainClientsAtATLSPort() async throws {
        try await withTLSListener { listener, _, lines in
            let error = try #require(await connectionError(client(listener.port)))
            #expect(error.domain == .websocket && error.publicCode == 11006)
            #expect(error.message == "ws://127.0.0.1:\(listener.port)/db: the server speaks TLS: use wss:")
            #expect(await lines.contains("a client spoke plain HTTP to this TLS port"))
            let answer = try await HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup).request("GET", "/")
            #expect(answer.status == 400 && String(buffer: answer.body).contains("this port speaks TLS"))
        }
        // What other servers do.
        let refusals = [
            "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{28}", "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<center>The plain HTTP request was sent to HTTPS port</center>",
        ]
        for refusal in refusals {
            let server = try await RawServer.answering(refusal)
            let error = await connectionError(try client(server.port))
            #expect(error?.publicCode == 11006 && error?.message.hasSuffix("the server speaks TLS: use wss:") == true, "\(refusal): \(String(describing: error))")
            await server.stop()
        }
    }

    @Test func tlsClientsAtAPlainPort() async throws {
        try await withTLSListener(tls: false) { listener, _, lines in
            let error = try #require(await connectionError(webSocket(listener.port, pinned())))
            #expect(error.domain == .tls && error.publicCode == 5011)
            #expect(error.message.contains("localhost port \(listener.port) speaks plain HTTP, not TLS; use ws: or http:"))
            #expect(await lines.contains("a client spoke TLS to this port"))
            // Others go on.
            #expect(await connectionError(try client(listener.port)) == nil)
        }
        let ssh = try await RawServer.start { socket in
            try await socket.send("SSH-2.0-OpenSSH_9.2\r\n")
            _ = try await socket.readToEnd()
        }
        let error = await connectionError(try webSocket(ssh.port, pinned()))
        #expect(error?.domain == .tls && error?.message.contains("SSH-2.0-OpenSSH") == true)
        await ssh.stop()
    }

    @Test func aConnectionThatEndsInTheHandshakeIsTriedAgain() async throws {
        let server = try await RawServer.start { _ = try await $0.read(10) }
        let error = await connectionError(try webSocket(server.port, pinned()))
        #expect(error?.domain == .network && error?.isTransient == true)
        await server.stop()
    }

    @Test func httpsBothWays() async throws {
        let delegate = TestDelegate(respond: { request in
            let total = try await request.body.collect().readableBytes
            return HTTPResponse(status: 200, body: .stream { writer in
                for _ in 0..<(total / 65536) { try await writer.write(ByteBuffer(repeating: 2, count: 65536)) }
            })
        })
        try await withTLSListener(delegate) { listener, _, _ in
            var client = HTTPClient(.tcp(host: "localhost", port: listener.port), group: testGroup)
            client.secureLayer = try layer(pinned())
            // More than may wait for the handshake.
            let pieces = 100
            let received = try await client.stream(
                "POST", "/import", body: .stream { writer in
                    for _ in 0..<pieces { try await writer.write(ByteBuffer(repeating: 1, count: 65536)) }
                }
            ) { head, body in
                var count = 0
                for try await piece in body { count += piece.readableBytes }
                return count
            }
            #expect(received == pieces * 65536)
            let whole = try await client.request("POST", "/import", body: .buffer(ByteBuffer(repeating: 1, count: 4 << 20)))
            #expect(whole.body.readableBytes == 4 << 20)
            client.secureLayer = try layer(ServerAuthentication(trustsSystemRoots: false))
            for body in [HTTPClient.RequestBody.none, .buffer(ByteBuffer(repeating: 1, count: 4 << 20))] {
                let error = await #expect(throws: ReplicationError.self) { try await client.request("POST", "/", body: body) }
                #expect(error?.publicCode == 5011)
            }
        }
    }

    /// The end of the connection is the end of such a body; without a close_notify anybody could have cut it.
    @Test func aCutAnswerIsNotTakenForAWholeOne() async throws {
        let context = try TLSContext(server: TLSServerOptions(identity: identity))
        for isCut in [false, true] {
            let server = try await ServerBootstrap(group: testGroup)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandlers([try TLSHandler(server: context), Ender(isCut: isCut)])
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
            var client = HTTPClient(.tcp(host: "127.0.0.1", port: server.localAddress?.port ?? 0), group: testGroup)
            client.secureLayer = try layer(pinned())
            if isCut {
                let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/") }
                #expect(error?.message.contains("close_notify") == true)
            } else {
                #expect(try await client.request("GET", "/").body == ByteBuffer(string: "the first half"))
            }
            try await server.close()
        }
    }

    /// Answers with a body up to the end of the connection, which it closes properly or below TLS.
    private final class Ender: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        let isCut: Bool

        init(isCut: Bool) { self.isCut = isCut }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 200 OK\r\n\r\nthe first half")), promise: nil)
            guard isCut else { return context.close(promise: nil) }
            if let below = try? context.pipeline.syncOperations.context(handlerType: TLSHandler.self) { below.close(promise: nil) }
        }
    }
}

/// What a logger was told.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    /// Waits a moment for a line with the text: the two ends of a connection are told one after the other.
    func contains(_ text: String) async -> Bool {
        for _ in 0..<1000 {
            if lines.withLock({ $0.contains { $0.contains(text) } }) { return true }
            try? await Task.sleep(for: .milliseconds(5))
        }
        return false
    }

    struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        init(lines: LogLines) { self.lines = lines }

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") }
        }
    }
}
