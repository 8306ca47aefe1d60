import NIOCore
import NIOEmbedded
import Testing

@testable import TLS

@Suite struct TLSHandlerTests {
    private func pair(
        server: (inout TLSServerOptions) -> Void = { _ in }, client: (inout TLSClientOptions) -> Void = { _ in }
    ) throws -> EmbeddedPair {
        let servers = try TestServers.get()
        return try EmbeddedPair(client: servers.clientContext(client), server: servers.serverContext(.good, server))
    }

    @Test func bytesGoBothWays() throws {
        let pair = try pair()
        // Before the handshake: held until it is done.
        pair.client.send(Array("early".utf8))
        try pair.pump()
        pair.server.send(Array("answer".utf8))
        try pair.pump()
        #expect(pair.server.recorder.bytes == Array("early".utf8))
        #expect(pair.client.recorder.bytes == Array("answer".utf8))
        let seen = try #require(pair.client.recorder.completed)
        let servers = try TestServers.get()
        #expect(seen.certificates == [try servers.identity(.good).leaf, servers.intermediate.leaf])
        #expect(seen.version == "TLSv1.3")
        #expect(seen.applicationProtocol == "http/1.1")
        #expect(seen.trust == .roots)
        #expect(pair.server.recorder.completed?.serverName == "localhost")
        #expect(pair.server.recorder.completed?.certificates.isEmpty == true)
        pair.finish()
        #expect(pair.client.recorder.errors.isEmpty && pair.server.recorder.errors.isEmpty)
    }

    @Test func aHandshakeInPiecesOfOneByte() throws {
        let pair = try pair()
        pair.client.send(Array(repeating: 7, count: 40000))
        try pair.pump { bytes, _ in bytes.map { [$0] } }
        #expect(pair.server.recorder.bytes == Array(repeating: 7, count: 40000))
        pair.finish()
    }

    @Test func plainBytesComeInBoundedPieces() throws {
        let pair = try pair()
        try pair.pump()
        let sent = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        pair.client.send(sent)
        try pair.pump()
        #expect(pair.server.recorder.bytes == sent)
        #expect(pair.server.recorder.pieces.allSatisfy { $0 <= TLSConnectionLimits().readBytes })
        pair.finish()
    }

    /// Who holds back his reads must not be read for; who asked once waits for a record that may come in many pieces.
    @Test func readsAreAskedForOnlyAsLongAsNoPlainBytesCame() throws {
        final class ReadCounter: ChannelOutboundHandler {
            typealias OutboundIn = ByteBuffer
            var count = 0

            func read(context: ChannelHandlerContext) {
                count += 1
                context.read()
            }
        }
        let pair = try pair()
        let counter = ReadCounter()
        try pair.server.channel.pipeline.syncOperations.addHandler(counter, position: .first)
        try pair.pump()
        pair.client.send(Array(repeating: 1, count: 1000))
        let record = try pair.client.output()
        pair.server.channel.read()
        counter.count = 0
        pair.server.input(Array(record[..<500]))
        #expect(counter.count == 1)
        pair.server.input(Array(record[500...]))
        #expect(pair.server.recorder.bytes.count == 1000)
        #expect(counter.count == 1)
        pair.finish()
    }

    @Test func smallWritesShareARecordAndAllPromisesAreKept() throws {
        let pair = try pair()
        try pair.pump()
        let futures = (0..<100).map { index in pair.client.channel.write(ByteBuffer(bytes: [UInt8(index)])) }
        #expect(try pair.client.output().isEmpty)
        pair.client.channel.flush()
        let output = try pair.client.output()
        #expect(output.count < 200)
        for future in futures { try future.wait() }
        pair.server.input(output)
        #expect(pair.server.recorder.bytes == (0..<100).map { UInt8($0) })
        pair.finish()
    }

    @Test(arguments: [true, false]) func theHandshakeHasADeadline(isClient: Bool) throws {
        let pair = try pair()
        let end = isClient ? pair.client : pair.server
        if !isClient { end.input(Array(try pair.client.output().prefix(100))) }
        pair.loop.advanceTime(by: .milliseconds(9_999))
        #expect(end.recorder.errors.isEmpty && end.channel.isActive)
        pair.loop.advanceTime(by: .milliseconds(1))
        #expect(end.recorder.kinds == [.timedOut])
        #expect(end.recorder.tlsErrors.first?.message.contains("handshake_time") == true)
        #expect(!end.channel.isActive)
        pair.finish()
    }

    @Test func afterTheHandshakeThereIsNoDeadline() throws {
        let pair = try pair()
        try pair.pump()
        pair.loop.advanceTime(by: .hours(10))
        #expect(pair.client.channel.isActive && pair.server.channel.isActive)
        pair.finish()
    }

    @Test func closingTellsThePeer() throws {
        let pair = try pair()
        try pair.pump()
        pair.client.send([1, 2, 3])
        pair.client.channel.close(promise: nil)
        pair.server.input(try pair.client.output())
        #expect(pair.server.recorder.bytes == [1, 2, 3])
        #expect(pair.server.recorder.errors.isEmpty)
        // Its own close_notify is its answer.
        #expect(!pair.server.channel.isActive)
        #expect(!(try pair.server.output()).isEmpty)
        pair.finish()
    }

    @Test(arguments: [true, false]) func anEndWithoutCloseNotifyIsToldAsTruncation(isClient: Bool) throws {
        let pair = try pair()
        try pair.pump()
        let end = isClient ? pair.client : pair.server
        end.channel.pipeline.fireChannelInactive()
        #expect(end.recorder.kinds == [.truncated])
        pair.finish()
    }

    @Test(arguments: [true, false]) func anEndInTheHandshakeIsTold(isClient: Bool) throws {
        let pair = try pair()
        let end = isClient ? pair.client : pair.server
        let held = end.channel.writeAndFlush(ByteBuffer(bytes: [1]))
        end.channel.pipeline.fireChannelInactive()
        #expect(end.recorder.kinds == [.closedInHandshake])
        #expect(throws: (any Error).self) { try held.wait() }
        pair.finish()
    }

    @Test func withHalfClosureTheOtherDirectionStaysOpen() throws {
        let pair = try pair()
        pair.server.channel.allowRemoteHalfClosure = true
        try pair.pump()
        pair.client.channel.close(promise: nil)
        pair.server.input(try pair.client.output())
        #expect(pair.server.recorder.inputClosed == 1)
        #expect(pair.server.channel.isActive)
        #expect(pair.server.recorder.errors.isEmpty)
        pair.finish()
    }

    @Test func plainHTTPIsAnsweredInWords() throws {
        let pair = try pair()
        pair.server.input(Array("GET /db/_blipsync HTTP/1.1\r\nHost: x\r\n\r\n".utf8))
        let answer = String(decoding: try pair.server.output(), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
        #expect(answer.contains("this port speaks TLS: use https: or wss:"))
        #expect(!pair.server.channel.isActive)
        #expect(pair.server.recorder.kinds == [.plainHTTP])
        pair.finish()
    }

    @Test func aServerWithoutTLSIsNamed() throws {
        let pair = try pair()
        pair.client.input(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        #expect(pair.client.recorder.kinds == [.plainHTTP])
        #expect("\(try #require(pair.client.recorder.tlsErrors.first))".contains("use ws: or http:"))
        pair.finish()
        let other = try self.pair()
        other.client.input(Array("SSH-2.0-OpenSSH_9.2p1\r\n".utf8))
        #expect(other.client.recorder.kinds == [.notTLS])
        #expect(other.client.recorder.tlsErrors.first?.message.contains("SSH-2.0-OpenSSH_") == true)
        other.finish()
    }

    @Test func whatWaitsForTheHandshakeIsBounded() throws {
        let pair = try pair(client: { $0.limits.handshakeBytes = 1000 })
        pair.client.send(Array(repeating: 1, count: 1000))
        #expect(pair.client.channel.isActive)
        let future = pair.client.channel.writeAndFlush(ByteBuffer(bytes: [1]))
        #expect(throws: TLSError.self) { try future.wait() }
        #expect(pair.client.recorder.kinds == [.limitExceeded])
        #expect(pair.client.recorder.tlsErrors.first?.message.contains("handshake_bytes (1000)") == true)
        pair.finish()
    }

    @Test(arguments: [false, true]) func sessionsAreResumed(reloads: Bool) throws {
        let servers = try TestServers.get()
        let server = try servers.serverContext()
        let client = try servers.clientContext()
        let other = try servers.serverContext()
        for round in 0..<3 {
            let pair = try EmbeddedPair(client: client, server: reloads && round == 1 ? other : server)
            try pair.pump()
            pair.server.send([1])
            try pair.pump()
            let seen = try #require(pair.client.recorder.completed)
            #expect(seen.isResumed == (round > 0 && !(reloads && round >= 1)))
            // What was judged at first is shown again.
            #expect(seen.certificates.count == 2)
            #expect(seen.trust == .roots)
            pair.finish()
        }
    }

    @Test func aKeptSessionIsJudgedAgain() throws {
        let servers = try TestServers.get()
        let server = try servers.serverContext()
        let client = try servers.clientContext()
        let first = try EmbeddedPair(client: client, server: server)
        try first.pump()
        first.finish()
        // The same session under a stricter eye: moves it to a context that trusts nobody.
        let strict = try servers.clientContext { $0.serverAuthentication = ServerAuthentication(pins: [.certificate(servers.stranger.leaf)]) }
        try #require(client.sessions).move(to: try #require(strict.sessions))
        let second = try EmbeddedPair(client: strict, server: server)
        try second.pump()
        #expect(second.client.recorder.kinds == [.certificateUntrusted])
        #expect(second.client.recorder.completed == nil)
        second.finish()
    }

    @Test func clientSessionsAreBounded() throws {
        let servers = try TestServers.get()
        let client = try servers.clientContext { $0.limits.sessions = 2 }
        for host in ["localhost", "127.0.0.1", "LOCALHOST"] {
            let pair = try EmbeddedPair(client: client, server: servers.serverContext(), host: host)
            try pair.pump()
            pair.server.send([1])
            try pair.pump()
            #expect(pair.client.recorder.completed != nil)
            pair.finish()
        }
        #expect(client.sessions?.count == 2)
    }

    @Test func aReloadSwapsTheContext() throws {
        let servers = try TestServers.get()
        let box = CurrentContext(try servers.serverContext(.good))
        box.replace(with: try servers.serverContext(.selfSigned))
        let pair = try EmbeddedPair(
            client: servers.clientContext { $0.serverAuthentication = ServerAuthentication(acceptsOnlySelfSigned: true) }, server: box.value)
        try pair.pump()
        #expect(pair.client.recorder.completed?.trust == .selfSigned)
        pair.finish()
    }

    // MARK: Client certificates

    @Test func clientCertificates() throws {
        let servers = try TestServers.get()
        func run(_ wanted: ClientCertificates, _ identity: Identity?) throws -> EmbeddedPair {
            let pair = try pair(server: { $0.clientCertificates = wanted }, client: { $0.identity = identity })
            try pair.pump()
            pair.finish()
            return pair
        }
        // Collected for an authenticator, whoever signed it.
        let collected = try run(ClientCertificates(mode: .request, roots: nil), servers.stranger)
        #expect(collected.server.recorder.completed?.certificates == [servers.stranger.leaf])
        // With a root list the chain has to lead there.
        let listed = try run(ClientCertificates(mode: .require, roots: [servers.root.leaf]), servers.client)
        #expect(listed.server.recorder.completed?.certificates == [servers.client.leaf, servers.intermediate.leaf])
        let refused = try run(ClientCertificates(mode: .require, roots: [servers.root.leaf]), servers.stranger)
        #expect(refused.server.recorder.kinds == [.unknownRoot])
        #expect(refused.server.recorder.tlsErrors.first?.certificate == "CN=stranger")
        #expect(refused.client.recorder.kinds == [.certificateRejected])
        // Without one: served if it is only asked for.
        #expect(try run(ClientCertificates(mode: .request, roots: [servers.root.leaf]), nil).server.recorder.completed?.certificates.isEmpty == true)
        let missing = try run(ClientCertificates(mode: .require, roots: nil), nil)
        #expect(missing.server.recorder.kinds == [.certificateRequired])
        #expect(missing.client.recorder.kinds == [.certificateRequired])
        #expect("\(try #require(missing.client.recorder.tlsErrors.first))".contains("authenticator: { identity: LABEL }"))
        // Each connection shows its chain again: no resumption.
        #expect(listed.client.recorder.completed?.isResumed == false)
    }

    @Test func aWeakIdentityIsRefusedByName() throws {
        let servers = try TestServers.get()
        let error = #expect(throws: TLSError.self) { try TLSContext(server: TLSServerOptions(identity: servers.identity(.weakKey))) }
        #expect(error?.kind == .configuration)
        #expect(error?.description.contains("CN=weak") == true)
        #expect(error?.reason?.contains("too small") == true)
    }
}
