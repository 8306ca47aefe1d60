import HTTPServer
import Interfaces
import NIOCore
import Testing

@testable import Transport

/// Proxies that do what they should, and proxies that do not.
@Suite("Proxies", .timeLimit(.minutes(10)))
struct ProxyTests {
    private let login = BasicCredentials(username: "gateway", password: "proxy-hunter")

    /// What comes of an answer, given whole and byte by byte: what was sent on the way, and the bytes of the remote or the error.
    private func run(_ proxy: ProxyServer, to host: String = "hub.example", _ answers: [[UInt8]]) throws -> (sent: [[UInt8]], rest: [UInt8]?, error: ReplicationError?) {
        func run(byByte: Bool) throws -> (sent: [[UInt8]], rest: [UInt8]?, error: ReplicationError?) {
            var negotiation = proxy.negotiation(to: host, 4984, userAgent: "nightjar/test", limit: 1_000)
            do throws(ReplicationError) {
                var sent = [try negotiation.begin()]
                var rest: [UInt8]?
                for answer in answers {
                    for piece in byByte ? answer.map({ [$0] }) : [answer] {
                        if rest != nil {
                            rest? += piece
                            continue
                        }
                        switch try negotiation.receive(piece) {
                        case .wait: break
                        case .send(let bytes): sent.append(bytes)
                        case .connected(let bytes): rest = bytes
                        }
                    }
                }
                return (sent, rest, nil)
            } catch { return ([], nil, error) }
        }
        let (whole, pieces) = (try run(byByte: false), try run(byByte: true))
        #expect(whole.sent == pieces.sent && whole.rest == pieces.rest && whole.error == pieces.error)
        return whole
    }

    private func run(_ proxy: ProxyServer, _ answer: String) throws -> (sent: [[UInt8]], rest: [UInt8]?, error: ReplicationError?) {
        try run(proxy, [Array(answer.utf8)])
    }

    @Test("CONNECT names the remote and the login, and what follows the answer is the remote's")
    func connect() throws {
        var proxy = ProxyServer(.http, host: "proxy", port: 3128)
        let open = try run(proxy, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nVia: x\r\n\r\n\r\n\r\nrest")
        #expect(open.sent.map { String(decoding: $0, as: UTF8.self) } == ["CONNECT hub.example:4984 HTTP/1.1\r\nHost: hub.example:4984\r\nUser-Agent: nightjar/test\r\n\r\n"])
        #expect(open.rest == Array("\r\n\r\nrest".utf8))
        proxy.credentials = login
        let closed = try run(proxy, "HTTP/1.1 200 OK\n\n")
        #expect(String(decoding: closed.sent[0], as: UTF8.self).hasSuffix("\r\nProxy-Authorization: Basic Z2F0ZXdheTpwcm94eS1odW50ZXI=\r\n\r\n"))
        #expect(closed.rest == [])
        let byAddress = try run(proxy, to: "fd00::1", [])
        #expect(String(decoding: byAddress.sent[0], as: UTF8.self).hasPrefix("CONNECT [fd00::1]:4984 "))
    }

    @Test("each refusal of an HTTP proxy says whether somebody must act, and what to do")
    func refusals() throws {
        let proxy = ProxyServer(.http, host: "proxy", port: 3128)
        let known = ProxyServer(.http, host: "proxy", port: 3128, credentials: login)
        let cases: [(ProxyServer, String, Int, ReplicationError.Kind, String)] = [
            (proxy, "HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=x\r\n\r\n", 407, .needsAction, "write proxy: { username"),
            (known, "HTTP/1.1 407 Who?\r\n\r\n", 407, .needsAction, "check proxy.username and proxy.password"),
            (known, "HTTP/1.1 407 Who?\r\nProxy-Authenticate: NTLM\r\nproxy-authenticate: Negotiate\r\n\r\n", 407, .needsAction, "accept Basic"),
            (proxy, "HTTP/1.1 403 Forbidden\r\n\r\n", 403, .needsAction, "allow CONNECT to hub.example:4984"),
            (proxy, "HTTP/1.1 302 Found\r\nLocation: http://login/\r\n\r\n", 302, .needsAction, "check proxy.url"),
            (proxy, "HTTP/1.1 405 No\r\n\r\n", 405, .needsAction, "check proxy.url"),
            (proxy, "HTTP/1.1 x\r\n\r\n", 0, .needsAction, "check proxy.url"),
            (proxy, "SSH-2.0-OpenSSH\r\n", 1002, .needsAction, "not a proxy of that kind"),
            (proxy, "\u{5}\u{0}", 1002, .needsAction, "not a proxy of that kind"),
        ]
        for (proxy, answer, code, kind, remedy) in cases {
            let error = try #require(try run(proxy, answer).error, "\(answer)")
            #expect(error.code == code && error.kind == kind && error.remedy?.contains(remedy) == true, "\(answer): \(error) \(error.remedy ?? "")")
            #expect(error.message.contains("http://proxy:3128"))
        }
        let busy = try #require(try run(proxy, "HTTP/1.1 503 Busy\u{1B}[31m\r\nRetry-After: 7\r\n\r\n").error)
        #expect(busy.isTransient && busy.retryAfterSeconds == 7 && !busy.message.utf8.contains(0x1B))
        // A date counts from the answer's own clock.
        let dated = try #require(try run(
            proxy, "HTTP/1.1 503 Busy\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:51:37 GMT\r\n\r\n").error)
        #expect(dated.retryAfterSeconds == 120)
        // 1xx answers count, too: none of it is without end.
        let endless = try #require(try run(proxy, String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100)).error)
        #expect(endless.message.contains("header_bytes (1000)"))
    }

    @Test("SOCKS: each address in its form, the login only where it is asked for")
    func socks() throws {
        let proxy = ProxyServer(.socks5, host: "proxy", port: 1080)
        let known = ProxyServer(.socks5, host: "proxy", port: 1080, credentials: login)
        let bound: [UInt8] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        let byName = try run(proxy, [[5, 0], bound + [7, 8]])
        #expect(byName.sent == [[5, 1, 0], [5, 1, 0, 3, 11] + Array("hub.example".utf8) + [0x13, 0x78]] && byName.rest == [7, 8])
        #expect(try run(proxy, to: "10.0.0.7", [[5, 0], bound]).sent.last == [5, 1, 0, 1, 10, 0, 0, 7, 0x13, 0x78])
        #expect(try run(proxy, to: "fd00::1", [[5, 0], [5, 0, 0, 4] + [UInt8](repeating: 0, count: 18)]).sent.last == [5, 1, 0, 4, 0xFD, 0] + [UInt8](repeating: 0, count: 13) + [1, 0x13, 0x78])
        let asked = try run(known, [[5, 2], [1, 0], [5, 0, 0, 3, 2, 65, 66, 0, 0]])
        #expect(asked.sent[1] == [1, 7] + Array("gateway".utf8) + [12] + Array("proxy-hunter".utf8) && asked.rest == [])
        #expect(try run(known, [[5, 0], bound]).sent.allSatisfy { !$0.contains(12) } == true)

        let cases: [(ProxyServer, [[UInt8]], Int, ReplicationError.Kind)] = [
            (proxy, [[5, 0xFF]], 407, .needsAction), (known, [[5, 0xFF]], 407, .needsAction), (known, [[5, 2], [1, 1]], 407, .needsAction),
            // A proxy that takes the login method although it was not offered.
            (proxy, [[5, 2]], 407, .needsAction),
            (proxy, [[4, 0]], 1002, .needsAction), (known, [[5, 2], [5, 0]], 1002, .needsAction), (proxy, [[5, 0, 5]], 1002, .needsAction),
            (proxy, [[5, 0], [5, 0, 0, 9, 0]], 1002, .needsAction), (proxy, [[5, 0], [5, 7]], 1002, .needsAction),
            (proxy, [[5, 0], [5, 2]], 403, .needsAction), (proxy, [[5, 0], [5, 1]], 17, .transient), (proxy, [[5, 0], [5, 4]], 24, .transient),
            (proxy, [[5, 0], [5, 5]], 19, .transient),
        ]
        for (proxy, answers, code, kind) in cases {
            // An answer before its question shows only where both come at once.
            if answers == [[5, 0, 5]] {
                var negotiation = proxy.negotiation(to: "hub.example", 4984, userAgent: "", limit: 1_000)
                #expect(throws: ReplicationError.self) { try negotiation.receive(answers[0]) }
                continue
            }
            let error = try #require(try run(proxy, answers).error, "\(answers)")
            #expect(error.code == code && error.kind == kind, "\(answers): \(error)")
        }
        #expect(try run(proxy, to: String(repeating: "h", count: 256), []).error != nil)
    }

    private func error(_ kind: ProxyServer.Kind, _ change: (inout WebSocketClient.Configuration) -> Void = { _ in }, _ serve: @escaping @Sendable (RawSocket) async throws -> Void) async throws -> ReplicationError {
        let server = try await RawServer.start(serve)
        let port = server.port
        let failed = await connectionError(try client(9) { configuration in
            configuration.proxy = ProxyServer(kind, host: "127.0.0.1", port: port, credentials: login)
            change(&configuration)
        })
        await server.stop()
        return try #require(failed)
    }

    @Test("a proxy that sends nothing, half a response, or an endless one costs no more than the limits allow", arguments: [ProxyServer.Kind.http, .socks5])
    func hostile(_ kind: ProxyServer.Kind) async throws {
        let silent = try await error(kind, { $0.limits.connectTime = .milliseconds(200) }) { _ = try await $0.readToEnd() }
        #expect(silent.isTransient && silent.message.contains("connect_time") && silent.message.contains("through \(kind.rawValue)://127.0.0.1"), "\(silent)")

        let half = try await error(kind) { socket in
            try await socket.send(kind == .http ? "HTTP/1.1 200 O" : "\u{5}")
            try await socket.channel.close()
        }
        #expect(half.isTransient && half.message.hasPrefix("\(kind.rawValue)://127.0.0.1:"), "\(half)")

        let endless = try await error(kind) { socket in
            try await socket.send(kind == .http ? "HTTP/1.1 200 OK\r\n" : "\u{5}\u{2}\u{1}\u{0}")
            for _ in 0..<1_000 { try await socket.send("X-Filler: " + String(repeating: "x", count: 1_000) + "\r\n") }
        }
        #expect(endless.kind == .needsAction, "\(endless)")
        if kind == .http { #expect(endless.message.contains("header_bytes")) }

        // Its words may repeat what was sent to it.
        guard kind == .http else { return }
        let grudge = try await error(kind) { socket in
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 403 Z2F0ZXdheTpwcm94eS1odW50ZXI= proxy-hunter\r\n\r\n")
        }
        #expect(!"\(grudge)".contains("hunter") && !"\(grudge)".contains("Z2F0ZXdheTpwcm94eS1odW50ZXI="))
    }

    @Test("if nothing listens at the proxy's address, the proxy has failed, not the remote")
    func absent() async throws {
        let failed = try #require(await connectionError(try client(9) { $0.proxy = ProxyServer(.http, host: "127.0.0.1", port: 1) }))
        #expect(failed.isTransient && failed.message.hasPrefix("http://127.0.0.1:1: "), "\(failed)")
    }
}
