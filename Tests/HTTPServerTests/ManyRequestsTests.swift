import Environment
import NIOCore
import Synchronization
import Testing

@testable import HTTPServer

/// A client may stay as long as it likes: what its connection holds does not depend on how many requests it has made.
@Suite("Many requests on one connection", .timeLimit(.minutes(10)))
struct ManyRequestsTests {
    /// Watches the one connection of a test from below the HTTP handler.
    private final class Watch: Sendable {
        private struct Seen: @unchecked Sendable {
            weak var exchange: Exchange?
        }

        private final class Door: ChannelInboundHandler {
            typealias InboundIn = ByteBuffer
            private let watch: Watch

            init(_ watch: Watch) { self.watch = watch }

            func handlerAdded(context: ChannelHandlerContext) {
                let channel = context.channel
                watch.channels.withLock { $0.append(channel) }
            }
        }

        private let channels = Mutex<[any Channel]>([])
        private let exchanges = Mutex<[Seen]>([])
        private let count = Mutex(0)

        func door() -> any ChannelHandler { Door(self) }

        /// Notes what the connection holds for the request that is being answered.
        func noteExchange() async throws {
            guard let channel = channels.withLock({ $0.first }) else { throw ChannelError.ioOnClosedChannel }
            try await channel.eventLoop.submit { [self] () -> Void in
                let handler = try channel.pipeline.syncOperations.handler(type: HTTPConnectionHandler.self)
                guard case .exchange(let exchange) = handler.phase else { return }
                let seen = Seen(exchange: exchange)
                exchanges.withLock { $0.append(seen) }
                count.withLock { $0 += 1 }
            }.get()
        }

        func isIdle() async throws -> Bool {
            guard let channel = channels.withLock({ $0.first }) else { return false }
            return try await channel.eventLoop.submit { () -> Bool in
                guard case .idle = try channel.pipeline.syncOperations.handler(type: HTTPConnectionHandler.self).phase else { return false }
                return true
            }.get()
        }

        var connections: Int { channels.withLock { $0.count } }
        var requests: Int { count.withLock { $0 } }
        /// How many requests are still held, by the connection or by the handler that answers them.
        var alive: Int {
            exchanges.withLock { exchanges in
                exchanges.removeAll { $0.exchange == nil }
                return exchanges.count
            }
        }
    }

    /// The request with a number, and the answer that must come back.
    private struct Question {
        var request: String
        var status: String
        /// Nil for an error, whose text may be anything.
        var body: String?

        init(_ number: Int) {
            let text = "\(number)"
            (status, body) = ("200", text)
            switch number % 4 {
            case 0: request = "GET /whole/\(text) HTTP/1.1\r\nHost: a\r\n\r\n"
            case 1: request = "GET /pieces/\(text) HTTP/1.1\r\nHost: a\r\n\r\n"
            case 2:
                // Some are large enough to count against the memory budget.
                let sent = number % 100 == 2 ? text + String(repeating: "x", count: 20_000) : text
                request = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(sent.utf8.count)\r\n\r\n\(sent)"
                body = sent
            default:
                request = "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
                (status, body) = ("404", nil)
            }
        }

        func isAnswered(by client: RawClient) async -> Bool {
            let header = await client.readHeader()
            guard header.hasPrefix("HTTP/1.1 \(status) "), header.contains("Connection: keep-alive\r\n"),
                let length = header.firstMatch(of: /Content-Length: ([0-9]+)/).flatMap({ Int($0.1) })
            else { return false }
            let found = await client.read(length)
            return body.map { $0 == found } ?? found.contains("there is nothing at")
        }
    }

    private static let routes: [Route] = [
        .get("whole/:n") { .json(try $0.parameters.require("n")) },
        .get("pieces/:n") { request in
            let text = try request.parameters.require("n")
            return .stream(length: text.utf8.count) { writer in
                for byte in text.utf8 { try await writer.write(ByteBuffer(bytes: [byte])) }
            }
        },
        .post("echo") { .json(try await $0.body.collect()) },
    ]

    @Test("ten thousand requests are answered in order, whether pipelined or one after the other, and leave nothing behind", arguments: [1, 16])
    func tenThousand(ahead: Int) async throws {
        let (watch, memory) = (Watch(), MemoryBudget(limit: 64 << 20))
        var configuration = HTTPListener.Configuration()
        configuration.limits = .patient
        configuration.memory = memory
        configuration.makeLowerHandlers = { [watch.door()] }
        try #require(configuration.limits.queuedRequests >= ahead)
        let router = Router(Self.routes)
        let address = HTTPListener.Address(try SocketAddress(ipAddress: "127.0.0.1", port: 0))
        let listener = try await HTTPListener.bind([address], configuration, group: testGroup, logger: quietLogger()) { request in
            try await watch.noteExchange()
            return try await router.respond(to: request)
        }
        let client = try await RawClient.connect(listener.boundAddresses.first?.port ?? 0)
        for round in 0..<10 {
            let numbers = (round * 1_000)..<((round + 1) * 1_000)
            for number in numbers.prefix(ahead) { try await client.send(Question(number).request) }
            for number in numbers {
                try #require(await Question(number).isAnswered(by: client), "request \(number)")
                if number + ahead < numbers.upperBound { try await client.send(Question(number + ahead).request) }
            }
            // After each round the state is as before the first.
            try await until { watch.alive == 0 && memory.used == 0 && memory.places == 0 && listener.bodyBytes == 0 }
            #expect(try await watch.isIdle())
        }
        #expect(watch.requests == 10_000 && watch.connections == 1 && listener.socketCount == 1)
        await client.close()
        await listener.drain(within: .seconds(1))
    }
}
