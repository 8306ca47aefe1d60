import Environment
import Glibc
import HTTPServer
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct ListenerTests {
    private func exchange(_ port: Int, _ request: String) async throws -> String {
        let socket = try await RawSocket.connect(port: port)
        try await socket.send(request)
        let text = try await socket.readText()
        await socket.close()
        return text
    }

    private func expectStatus(_ status: Int, _ port: Int, _ request: String, at location: SourceLocation = #_sourceLocation) async throws {
        let answer = try await exchange(port, request)
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)", sourceLocation: location)
    }

    @Test func theUpgradeIsAnsweredByteForByte() async throws {
        try await withListener { listener, delegate in
            let socket = try await RawSocket.connect(port: listener.port)
            try await socket.send(upgradeRequest(path: "/sensors/_blipsync?client=cbl2", extra: "Authorization: Basic dXNlcjpwYXNz\r\n"))
            let head = try await socket.readHeader()
            #expect(
                head
                    == "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: BLIP_3+CBMobile_3\r\n\r\n"
            )
            let request = await delegate.nextTransport()?.request
            #expect(request?.database == "sensors")
            #expect(request?.query == "client=cbl2")
            #expect(request?.basicCredentials == BasicCredentials(username: "user", password: "pass"))
            #expect(request?.remoteAddress.hasPrefix("127.0.0.1:") == true)
            #expect(listener.connectionCount == 1)
            await socket.close()
        }
    }

    @Test("a port that the system refuses to this process is no aborted connection, and its remedy is said once") func refusedPort() {
        let failure = WebSocketListener.obstacle(IOError(errnoCode: EACCES, reason: "bind"), at: "127.0.0.1, port 80", port: 80)
        #expect(failure.code == 28 && failure.kind == .needsAction)
        #expect(failure.message.hasPrefix("cannot listen on 127.0.0.1, port 80: Permission denied; "), "\(failure)")
        #expect(failure.remedy?.contains("CAP_NET_BIND_SERVICE") == true && failure.sentence == "\(failure)", "\(failure)")
        let high = WebSocketListener.obstacle(IOError(errnoCode: EACCES, reason: "bind"), at: "127.0.0.1, port 4984", port: 4984)
        #expect(high.remedy?.contains("CAP_NET_BIND_SERVICE") == false, "\(high)")
    }

    @Test func framesBehindTheRequestAreNotLost() async throws {
        try await withListener { listener, delegate in
            let socket = try await RawSocket.connect(port: listener.port)
            try await socket.send(Array(upgradeRequest().utf8) + frame(0x82, [1, 2, 3]) + frame(0x82, [4]))
            _ = try await socket.readHeader()
            let receiver = try #require(await delegate.nextTransport()).receiver
            #expect(await receiver.messages(2) == [[1, 2, 3], [4]])
            await socket.close()
        }
    }

    @Test(arguments: [
        (upgradeRequest(protocols: "BLIP_3+CBMobile_5"), 400), (upgradeRequest(protocols: nil), 400), (upgradeRequest(connection: "close"), 426), (upgradeRequest(upgrade: "h2c"), 426),
        (upgradeRequest(version: "12"), 426), (upgradeRequest(key: "x"), 400), (upgradeRequest(path: "/%ff/_blipsync"), 400), (upgradeRequest(path: "//_blipsync"), 400),
        ("GET /db/_blipsync HTTP/1.1\r\nHost: h\r\n\r\n", 426), ("POST /db/_blipsync HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 405), ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 400),
    ])
    func brokenHandshakesGetAClearAnswer(request: String, status: Int) async throws {
        try await withListener { listener, _ in
            let answer = try await exchange(listener.port, request)
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
            #expect(answer.contains("Content-Type: application/json\r\n"))
            #expect(answer.contains(#""reason":"#))
        }
    }

    @Test func aRefusalCarriesStatusHeadersAndReason() async throws {
        let delegate = TestDelegate(authorize: { _ in .refuse(status: 401, reason: "Login required", headers: ["WWW-Authenticate": "Basic realm=\"nightjar\"", "X-Empty": "", "X-Bad": "a\r\nb"]) })
        try await withListener(delegate) { listener, _ in
            let answer = try await exchange(listener.port, upgradeRequest())
            #expect(
                answer == "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"nightjar\"\r\nContent-Type: application/json\r\nContent-Length: 51\r\nConnection: close\r\n\r\n"
                    + #"{"error":"unauthorized","reason":"Login required"}"# + "\n"
            )
            #expect(listener.connectionCount == 0)
        }
    }

    @Test func moreConnectionsThanAllowedGet503() async throws {
        var limits = TransportLimits()
        limits.maxConnections = 2
        try await withListener(limits: limits) { listener, delegate in
            let (first, firstSide) = try await upgraded(listener, delegate)
            let (second, _) = try await upgraded(listener, delegate)
            let answer = try await exchange(listener.port, upgradeRequest())
            #expect(answer.hasPrefix("HTTP/1.1 503 "))
            #expect(answer.contains("max_connections (2)"))
            await first.close()
            #expect(await firstSide.receiver.end()?.code == 1006)
            let (third, _) = try await upgraded(listener, delegate)
            await second.close()
            await third.close()
        }
    }

    @Test func refusedUpgradesGiveTheirPlaceBack() async throws {
        var limits = TransportLimits()
        limits.maxConnections = 1
        try await withListener(TestDelegate(authorize: { _ in .refuse(status: 403, reason: "no") }), limits: limits) { listener, _ in
            for _ in 0..<5 { try await expectStatus(403, listener.port, upgradeRequest()) }
        }
    }

    @Test(arguments: ["", "GET / HT", "GET / HTTP/1.1\r\nHost: h\r\n"])
    func aSlowHeaderIsCutOff(start: String) async throws {
        var limits = TransportLimits()
        limits.http.headerTime = .milliseconds(50)
        try await withListener(limits: limits) { listener, _ in
            try await expectStatus(408, listener.port, start)
        }
    }

    @Test func aSlowBodyIsCutOff() async throws {
        var limits = TransportLimits()
        limits.http.bodyTime = .milliseconds(50)
        try await withListener(limits: limits) { listener, _ in
            try await expectStatus(408, listener.port, "PUT /db/doc HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123")
        }
    }

    @Test func largeHeadersAreRefused() async throws {
        try await withListener { listener, _ in
            let long = String(repeating: "x", count: 20_000)
            try await expectStatus(431, listener.port, "GET / HTTP/1.1\r\nX-Long: \(long)\r\n\r\n")
            try await expectStatus(431, listener.port, "GET /\(long) HTTP/1.1\r\n\r\n")
            let many = String(repeating: "A: b\r\n", count: 200)
            try await expectStatus(431, listener.port, "GET / HTTP/1.1\r\n\(many)\r\n")
        }
    }

    @Test(arguments: ["Content-Length: 11\r\n\r\n12345678901", "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n", "Content-Length: 99999999\r\n\r\n"])
    func largeBodiesAreRefused(rest: String) async throws {
        var limits = TransportLimits()
        limits.http.bodyBytes = 10
        try await withListener(limits: limits) { listener, _ in
            let answer = try await exchange(listener.port, "PUT /db/doc HTTP/1.1\r\nHost: h\r\n" + rest)
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
            #expect(answer.contains("body_bytes (10)"))
        }
    }

    @Test func bodiesOfAllConnectionsTogetherAreBounded() async throws {
        try await withListener(memory: MemoryBudget(limit: 160_000)) { listener, _ in
            // More than there will ever be room for.
            try await expectStatus(413, listener.port, "PUT /db/doc HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n\(String(repeating: "x", count: 90_000))")
            // And what was held is given back: three bodies for which there is no room at the same time.
            for _ in 0..<3 {
                try await expectStatus(404, listener.port, "PUT /db/doc HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n\(String(repeating: "x", count: 60_000))")
            }
        }
    }

    @Test func otherRequestsGoToTheDelegateOneByOne() async throws {
        let delegate = TestDelegate(respond: { request in
            HTTPResponse(
                status: 200, headers: ["X-Method": request.method], body: .buffer(ByteBuffer(string: "\(request.path)|\(request.query ?? "-")|\(String(buffer: try await request.body.collect()))"))
            )
        })
        try await withListener(delegate) { listener, _ in
            let answer = try await exchange(
                listener.port,
                "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\nPOST /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\nHEAD /e HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            )
            #expect(
                answer == "HTTP/1.1 200 OK\r\nX-Method: GET\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n/a|b=c|"
                    + "HTTP/1.1 200 OK\r\nX-Method: POST\r\nContent-Length: 8\r\nConnection: keep-alive\r\n\r\n/d|-|xyz"
                    + "HTTP/1.1 200 OK\r\nX-Method: HEAD\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
            )
        }
    }

    @Test func anUpgradeMayFollowOtherRequests() async throws {
        try await withListener { listener, delegate in
            let socket = try await RawSocket.connect(port: listener.port)
            try await socket.send("HEAD /db HTTP/1.1\r\nHost: h\r\n\r\n" + upgradeRequest())
            #expect(try await socket.readHeader().hasPrefix("HTTP/1.1 404 "))
            #expect(try await socket.readHeader().hasPrefix("HTTP/1.1 101 "))
            try await socket.send(frame(0x82, [7]))
            #expect(await delegate.nextTransport()?.receiver.messages(1) == [[7]])
            await socket.close()
        }
    }

    @Test func streamedResponsesAreChunked() async throws {
        let delegate = TestDelegate(respond: { _ in
            HTTPResponse(status: 200, body: .stream { writer in
                try await writer.write(ByteBuffer(string: "hello"))
                try await writer.write(ByteBuffer())
                try await writer.write(ByteBuffer(repeating: UInt8(ascii: "x"), count: 17))
            })
        })
        try await withListener(delegate) { listener, _ in
            let answer = try await exchange(listener.port, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            #expect(answer == "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n")
            let old = try await exchange(listener.port, "GET / HTTP/1.0\r\n\r\n")
            #expect(old == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhelloxxxxxxxxxxxxxxxxx")
        }
    }

    @Test func expectContinueIsAnswered() async throws {
        try await withListener { listener, _ in
            let socket = try await RawSocket.connect(port: listener.port)
            try await socket.send("PUT /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            #expect(try await socket.readHeader() == "HTTP/1.1 100 Continue\r\n\r\n")
            try await socket.send("ab")
            #expect(try await socket.readHeader().hasPrefix("HTTP/1.1 404 "))
            await socket.close()
        }
    }

    @Test func aDepartedClientCancelsItsRequest() async throws {
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let (cancelled, cancel) = AsyncStream<Void>.makeStream()
        let delegate = TestDelegate(respond: { _ in
            await withTaskCancellationHandler {
                begin.yield()
                var never = AsyncStream<Void>.makeStream().stream.makeAsyncIterator()
                await never.next()
            } onCancel: {
                cancel.yield()
            }
            return HTTPResponse(status: 200)
        })
        try await withListener(delegate) { listener, _ in
            let socket = try await RawSocket.connect(port: listener.port)
            try await socket.send("GET /db/_changes?feed=longpoll HTTP/1.1\r\nHost: h\r\n\r\n")
            for await _ in begun { break }
            await socket.close()
            for await _ in cancelled { break }
        }
    }

    @Test func stoppingClosesEverythingWithTheGivenCode() async throws {
        let delegate = TestDelegate()
        try await withListener(delegate) { listener, _ in
            let (socket, accepted) = try await upgraded(listener, delegate)
            let idle = try await RawSocket.connect(port: listener.port)
            try await idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            _ = try await idle.readHeader()
            async let stopped: Void = listener.stop(code: 4001, reason: "restart")
            let close = try await socket.readFrame()
            #expect(close.first == 0x88)
            #expect(close.payload == [15, 161] + Array("restart".utf8))
            try await socket.send(frame(0x88, [15, 161]))
            await stopped
            #expect(await accepted.receiver.end() == ConnectionEnd(code: 4001, reason: "restart", initiatedLocally: true))
            #expect(listener.socketCount == 0)
            await #expect(throws: (any Error).self) { _ = try await RawSocket.connect(port: listener.port) }
            await socket.close()
            await idle.close()
        }
    }

    @Test func aPeerThatIgnoresTheCloseIsDroppedWhenStopping() async throws {
        var limits = TransportLimits()
        limits.closeTime = .seconds(1)
        let delegate = TestDelegate()
        try await withListener(delegate, limits: limits) { listener, _ in
            let (socket, accepted) = try await upgraded(listener, delegate)
            await listener.stop()
            #expect(await accepted.receiver.end()?.code == 4001)
            await socket.close()
        }
    }

    /// What a status shows is what another machine can use.
    @Test func addressesThatPeersCanReach() throws {
        func entry(_ ip: String, loopback: Bool = false, linkLocal: Bool = false) throws -> NetworkInterfaces.Entry {
            NetworkInterfaces.Entry(interface: "x", address: try SocketAddress(ipAddress: ip, port: 0), isLoopback: loopback, isLinkLocal: linkLocal)
        }
        let all = [
            try entry("127.0.0.1", loopback: true), try entry("192.0.2.7"), try entry("192.0.2.7"), try entry("::1", loopback: true),
            try entry("fe80::1", linkLocal: true),
        ]
        let wildcards = [try SocketAddress(ipAddress: "0.0.0.0", port: 4984), try SocketAddress(ipAddress: "::", port: 4984)]
        // Of IPv6 this machine has no other address than its own, and no peer comes by that.
        #expect(ListenAddresses.reachable(wildcards, at: all).map(\.shown) == ["192.0.2.7:4984"])
        #expect(ListenAddresses.reachable([wildcards[1]], at: all).map(\.shown) == ["[::1]:4984"])
        #expect(ListenAddresses.reachable(wildcards, at: [all[0], all[3]]).map(\.shown) == ["127.0.0.1:4984", "[::1]:4984"])
        #expect(ListenAddresses.reachable([try SocketAddress(ipAddress: "127.0.0.1", port: 1)], at: all).map(\.shown) == ["127.0.0.1:1"])
        #expect(ListenAddresses.reachable(wildcards, at: [all[0]]).map(\.shown) == ["127.0.0.1:4984"])
    }

    @Test func interfacesAndAddresses() async throws {
        let delegate = TestDelegate()
        let logger = quietLogger()
        let loopback = try #require(NetworkInterfaces.all().first { $0.isLoopback }?.interface)
        let byName = try await WebSocketListener.bind(.init(interface: loopback, port: 0), delegate: delegate, group: testGroup, logger: logger)
        #expect(byName.boundDescriptions.contains("127.0.0.1:\(byName.port)"))
        #expect(Set(byName.boundAddresses.map(\.port)).count == 1)
        let chosen = byName.port
        await byName.stop()
        let resolved = try await ListenAddresses.resolve(interface: loopback, port: chosen)
        #expect(resolved.allSatisfy { $0.address.port == chosen })
        let byNameAndPort = try await WebSocketListener.bind(
            .init(interface: loopback, port: chosen), delegate: delegate, group: testGroup, logger: logger)
        #expect(byNameAndPort.port == chosen)
        await byNameAndPort.stop()
        let everywhere = try await WebSocketListener.bind(.init(port: 0), delegate: delegate, group: testGroup, logger: logger)
        #expect(everywhere.boundDescriptions.first == "0.0.0.0:\(everywhere.port)")
        let taken = await bindError(.init(interface: "127.0.0.1", port: everywhere.port), delegate)
        #expect(taken?.message.contains("in use") == true && taken?.code == 25)
        await everywhere.stop()
        let unknown = await bindError(.init(interface: "nosuch0.invalid", port: 0), delegate)
        #expect(unknown?.domain == .network)
        // Without a name server too: a word like that is rather an interface that is not plugged in.
        let missing = await bindError(.init(interface: "nosuch0", port: 0), delegate)
        #expect(missing?.code == 27 && missing?.message.contains("network interface") == true)
        #expect(ListenAddresses.mayBeInterface("wwan0") && !ListenAddresses.mayBeInterface("hub.example"))
        #expect(await bindError(.init(interface: "192.0.2.1", port: 0), delegate)?.code == 25)
        #expect(await bindError(.init(port: 70000), delegate) != nil)
    }

    private func bindError(_ configuration: WebSocketListener.Configuration, _ delegate: TestDelegate) async -> ReplicationError? {
        do {
            await (try WebSocketListener.bind(configuration, delegate: delegate, group: testGroup, logger: quietLogger())).stop()
            return nil
        } catch {
            return error as? ReplicationError
        }
    }
}
