import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import TLS

/// What others find out about our server from outside, and how our client gets on with theirs.
@Suite(.timeLimit(.minutes(10))) struct ProbeTests {
    private func probe(_ port: Int, _ arguments: String..., input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await openssl(["s_client", "-connect", "\(tlsTestHost):\(port)", "-servername", "localhost"] + arguments, input: input)
    }

    @Test func theFloorCanBeRaised() async throws {
        var options = TLSServerOptions(identity: try TestServers.get().identity(.good))
        options.minimum = .v1_3
        let server = try await TLSTestServer.start(TLSContext(server: options))
        let old = try await probe(server.port, "-tls1_2")
        #expect(old.status != 0 && old.output.contains("Cipher is (NONE)"), "\(old)")
        let new = try await probe(server.port, "-tls1_3")
        #expect(new.status == 0, "\(new)")
        await server.stop()
    }

    @Test func oldVersionsAndWeakCiphersAreRefused() async throws {
        let servers = try TestServers.get()
        // An RSA server, so that RSA ciphers have a chance; a 2048-bit key takes a moment to make.
        let rsa = try TestPKI.identity("rsa", issuer: servers.intermediate, kind: .rsa(bits: 2048), sends: [servers.intermediate.leaf])
        for identity in [rsa, try servers.identity(.good)] {
            let server = try await TLSTestServer.start(TLSContext(server: TLSServerOptions(identity: identity)))
            for version in ["-tls1", "-tls1_1"] {
                let outcome = try await probe(server.port, version, "-cipher", "ALL:@SECLEVEL=0")
                #expect(outcome.status != 0 && outcome.output.contains("Cipher is (NONE)"), "\(version): \(outcome)")
            }
            for version in ["-tls1_2", "-tls1_3"] {
                let outcome = try await probe(server.port, version)
                #expect(outcome.status == 0, "\(version): \(outcome)")
            }
            let list = try await openssl(["ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"])
            let ciphers = list.output.split(whereSeparator: { $0 == ":" || $0.isNewline }).map(String.init)
            #expect(ciphers.count > 60)
            var accepted: Set<String> = []
            for cipher in ciphers where try await probe(server.port, "-tls1_2", "-cipher", "\(cipher):@SECLEVEL=0").status == 0 { accepted.insert(cipher) }
            let kind = identity.key.facts.kind == .rsa ? "RSA" : "ECDSA"
            #expect(
                accepted == [
                    "ECDHE-\(kind)-AES128-GCM-SHA256", "ECDHE-\(kind)-AES256-GCM-SHA384", "ECDHE-\(kind)-CHACHA20-POLY1305",
                ])
            await server.stop()
        }
    }

    @Test func applicationProtocolAndCompression() async throws {
        let server = try await TLSTestServer.start(TestServers.get().serverContext())
        let http = try await probe(server.port, "-alpn", "h2,http/1.1")
        #expect(http.output.contains("ALPN protocol: http/1.1"))
        #expect(http.output.contains("Compression: NONE"))
        let other = try await probe(server.port, "-alpn", "h2")
        #expect(other.status != 0 && other.errors.contains("no application protocol"), "\(other)")
        await server.stop()
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"]) func sessionsResume(version: String) async throws {
        let server = try await TLSTestServer.start(TestServers.get().serverContext())
        let folder = try TemporaryFolder()
        let file = folder.path("session.pem")
        // The echo comes behind the tickets: having seen it, s_client has them.
        let client = try Subprocess(
            "/usr/bin/env", ["openssl", "s_client", "-connect", "\(tlsTestHost):\(server.port)", version, "-sess_out", file], input: .open)
        client.write("hello\n")
        _ = try await client.line(containing: "hello")
        client.closeInput()
        _ = try await client.wait()
        let second = try await probe(server.port, version, "-sess_in", file)
        #expect(second.output.contains("Reused, TLSv1"), "\(second)")
        await server.stop()
    }

    @Test func renegotiationIsRefused() async throws {
        let server = try await TLSTestServer.start(TestServers.get().serverContext())
        let client = try Subprocess("/usr/bin/env", ["openssl", "s_client", "-connect", "\(tlsTestHost):\(server.port)", "-tls1_2"], input: .open)
        client.write("one\n")
        _ = try await client.line(containing: "one")
        client.write("R\n")
        // The refusal is a warning; s_client makes an error of it.
        let outcome = try await client.wait()
        #expect(outcome.errors.contains("no renegotiation"), "\(outcome)")
        // The server itself goes on.
        #expect(try await probe(server.port).status == 0)
        await server.stop()
    }

    @Test func ourClientAndTheirServer() async throws {
        let servers = try TestServers.get()
        let files = try PEMFiles()
        let certificate = try files.write("server.pem", servers.identity(.good).chain)
        let key = try files.writeKey("server.key", servers.identity(.good).key)
        for version in ["-tls1_2", "-tls1_3", "-tls1_1"] {
            let arguments = ["s_server", "-accept", "\(tlsTestHost):0", "-cert", certificate, "-cert_chain", certificate, "-key", key, "-rev", version]
            let server = try Subprocess("/usr/bin/env", ["openssl"] + arguments + (version == "-tls1_1" ? ["-cipher", "DEFAULT@SECLEVEL=0"] : []), input: .open)
            let line = try await server.line(containing: "ACCEPT")
            let port = try #require(line.split(separator: ":").last.flatMap { Int($0) })
            let (channel, tap) = try await connectTLS(port, servers.clientContext())
            if version == "-tls1_1" {
                guard case .failure(let error) = try await tap.outcome() else {
                    Issue.record("TLS 1.1 was spoken")
                    continue
                }
                #expect(error.kind == .handshakeFailed)
            } else {
                let completed = try await tap.outcome().get()
                #expect(completed.version == (version == "-tls1_2" ? "TLSv1.2" : "TLSv1.3"))
                try await channel.writeAndFlush(ByteBuffer(string: "abc\n"))
                try await eventually("the answer comes") { tap.now.bytes == Array("cba\n".utf8) }
            }
            try? await channel.close()
            server.send(9)
            _ = try? await server.wait()
        }
    }

    @Test func plainHTTPGetsItsAnswerWholly() async throws {
        let server = try await TLSTestServer.start(TestServers.get().serverContext())
        let outcome = try await Subprocess.run("/usr/bin/env", ["curl", "-sS", "-i", "http://\(tlsTestHost):\(server.port)/db/"])
        #expect(outcome.status == 0 && outcome.output.contains("this port speaks TLS"), "\(outcome)")
        #expect(outcome.output.hasPrefix("HTTP/1.1 400"))
        // A client that sends much before it reads must see the answer too.
        let body = Array(repeating: UInt8(ascii: "x"), count: 300_000)
        let large = try await Subprocess.run(
            "/usr/bin/env", ["curl", "-sS", "-i", "--data-binary", "@-", "-H", "Expect:", "http://\(tlsTestHost):\(server.port)/db/"], input: .bytes(body))
        #expect(large.output.contains("this port speaks TLS"), "\(large)")
        await server.stop()
    }

    @Test func curlTalksToIt() async throws {
        let servers = try TestServers.get()
        let files = try PEMFiles()
        let root = try files.write("root.pem", [servers.root.leaf])
        let server = try await TLSTestServer.start(servers.serverContext())
        // An echo is no HTTP, but curl says so only after its own checks of the certificate.
        let good = try await Subprocess.run("/usr/bin/env", ["curl", "-sS", "--http0.9", "--max-time", "5", "--cacert", root, "--resolve", "localhost:\(server.port):\(tlsTestHost)", "https://localhost:\(server.port)/"])
        #expect(good.status != 60, "\(good)")
        let untrusted = try await Subprocess.run("/usr/bin/env", ["curl", "-sS", "https://\(tlsTestHost):\(server.port)/"])
        #expect(untrusted.status == 60, "\(untrusted)")
        try await eventually("the server hears of it") { server.accepted.contains { $0.kinds == [.certificateRejected] } }
        await server.stop()
    }
}
