import Glibc
import HTTPServer
import Interfaces
import NIOCore
import NIOPosix
import TLS
import Testing

@testable import Transport

/// Names with several addresses, of which some are of no use: each gets a channel of its own, and one of them wins.
@Suite("Names with several addresses", .timeLimit(.minutes(5)))
struct SeveralAddressesTests {
    struct FixedResolver: Resolver, Sendable {
        let eventLoop: any EventLoop
        let addresses: [SocketAddress]

        func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { eventLoop.makeSucceededFuture(addresses) }
        func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { eventLoop.makeSucceededFuture([]) }
        func cancelQueries() {}
    }

    /// A port of 127.0.0.1 that neither takes nor refuses a connection: its queue is full.
    final class SilentPort: Sendable {
        private let descriptors: [Int32]
        let port: Int

        init() throws {
            func make(_ flags: Int32) -> Int32 { socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | flags, 0) }
            let listener = make(0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            var descriptors = [listener]
            let isListening = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    guard bind(listener, address, length) == 0, listen(listener, 0) == 0, getsockname(listener, address, &length) == 0 else { return false }
                    for _ in 0..<4 {
                        descriptors.append(make(Int32(SOCK_NONBLOCK.rawValue)))
                        _ = connect(descriptors[descriptors.count - 1], address, length)
                    }
                    return true
                }
            }
            try #require(isListening)
            self.descriptors = descriptors
            port = Int(UInt16(bigEndian: address.sin_port))
        }

        deinit { for each in descriptors { close(each) } }
    }

    private func client(_ ports: [Int]) throws -> HTTPClient {
        let addresses = try ports.map { try SocketAddress(ipAddress: "127.0.0.1", port: $0) }
        var client = HTTPClient(.tcp(host: "hub.example", port: 80), group: testGroup)
        client.resolver = { FixedResolver(eventLoop: $0, addresses: addresses) }
        client.connectTime = .seconds(60)
        return client
    }

    @Test("an address that refuses, and one that says nothing, cost the others nothing")
    func unusable() async throws {
        let silent = try SilentPort()
        try await withListener(TestDelegate(respond: { _ in HTTPResponse(status: 204) })) { listener, _ in
            for ports in [[1, listener.port], [silent.port, listener.port], [1, silent.port, listener.port], [1, 1, listener.port]] {
                let answer = try await client(ports).request("GET", "/")
                #expect(answer.status == 204, "\(ports)")
            }
            let nobody = try client([1, 1])
            let refused = await #expect(throws: ReplicationError.self) { try await nobody.request("GET", "/") }
            #expect(refused?.code == ReplicationError.NetworkCode.refused.rawValue)
        }
    }

    @Test("a proxy may have several addresses as well, and its refusal is reported")
    func proxy() async throws {
        let silent = try SilentPort()
        for refuses in [false, true] {
            let server = try await RawServer.start { socket in
                _ = try await socket.readHeader()
                if refuses { return try await socket.send("HTTP/1.1 403 No\r\n\r\n") }
                try await socket.send("HTTP/1.1 200 OK\r\n\r\n")
                _ = try await socket.readHeader()
                try await socket.send("HTTP/1.1 204 No Content\r\n\r\n")
            }
            for ports in [[1, server.port], [silent.port, server.port]] {
                var client = try client(ports)
                client.proxy = ProxyServer(.http, host: "proxy.example", port: 3128)
                if refuses {
                    let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/") }
                    #expect(error?.code == 403)
                } else {
                    #expect(try await client.request("GET", "/").status == 204)
                }
            }
            await server.stop()
        }
    }

    @Test("a request's time holds while its connection is made, through a proxy or not", arguments: [false, true])
    func deadline(byProxy: Bool) async throws {
        let silent = try SilentPort()
        var client = try client([silent.port])
        if byProxy { client.proxy = ProxyServer(.http, host: "proxy.example", port: 3128) }
        let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/", timeout: .milliseconds(300)) }
        #expect(error?.message == "hub.example:80: no complete answer to GET / within 300 ms")
    }

    @Test("a task that is cancelled while a connection is made, a proxy is asked, or TLS begins, ends at once")
    func cancelled() async throws {
        let silent = try SilentPort()
        let reached = AsyncStream<Void>.makeStream()
        // Takes connections and says nothing.
        let mute = try await RawServer.start { socket in
            reached.continuation.yield()
            _ = try await socket.readToEnd()
        }
        var byProxy = try client([mute.port])
        byProxy.proxy = ProxyServer(.http, host: "proxy.example", port: 3128)
        var secure = try client([mute.port])
        secure.secureLayer = .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions())))
        let body = HTTPClient.RequestBody.buffer(ByteBuffer(string: "body"))
        var connections = reached.stream.makeAsyncIterator()
        for (client, isReached) in [(try client([silent.port]), false), (byProxy, true), (secure, true), (try client([mute.port]), true)] {
            let task = Task { try await client.request("POST", "/", body: body, timeout: nil) }
            if isReached { await connections.next() }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        await mute.stop()
    }

    @Test("a server that speaks no TLS, or ends the connection at once, is an error and nothing worse")
    func broken() async throws {
        for answer in ["", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
            let server = try await RawServer.start { try await $0.send(answer) }
            var client = try client([1, server.port])
            client.secureLayer = .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions())))
            for body in [HTTPClient.RequestBody.none, .buffer(ByteBuffer(string: "body"))] {
                await #expect(throws: ReplicationError.self) { try await client.request("POST", "/", body: body) }
            }
            await server.stop()
        }
    }
}
