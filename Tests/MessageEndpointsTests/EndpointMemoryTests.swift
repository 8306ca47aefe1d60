import Environment
import Interfaces
import NIOCore
import Synchronization
import Testing
import Transport

@testable import MessageEndpoints

/// What strangers make an endpoint hold.
@Suite(.timeLimit(.minutes(2))) struct EndpointMemoryTests {
    /// A peer's stream, from which comes what the test says, and to which nobody listens.
    private final class Line: MessageEndpointConnection {
        private let state = Mutex<(replicator: (any ReplicatorConnection)?, closes: Int)>((nil, 0))
        /// Says who it is as soon as it is open.
        private let offers: Bool
        init(offers: Bool) { self.offers = offers }

        var closes: Int { state.withLock { $0.closes } }

        func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
            state.withLock { $0.replicator = connection }
            completion(true, nil)
            if offers { offer() }
        }

        func send(_ message: ByteBuffer, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) { completion(true, nil) }

        func close(error: MessagingError?, completion: @escaping @Sendable () -> Void) {
            state.withLock { $0 = (nil, $0.closes + 1) }
            completion()
        }

        func say(_ frame: LinkFrame) {
            var bytes = ByteBuffer()
            frame.write(to: &bytes)
            state.withLock { $0.replicator }?.receive(bytes)
        }

        func offer() { say(LinkFrame(kind: .open, session: 7, window: 32, payload: EndpointOffer().payload(segmentBytes: 16_384))) }

        /// A message of so many segments, or the beginning of one.
        func message(segments: Int, ends: Bool) {
            for number in 0..<segments {
                let isLast = ends && number == segments - 1
                say(LinkFrame(
                    kind: .data, flags: isLast ? LinkFrame.isLast : 0, session: 7, sequence: UInt32(number), window: 32,
                    payload: ByteBuffer(repeating: 7, count: 16_384)))
            }
        }
    }

    private final class Session: MessageReceiver {
        let told: AsyncStream<Int>
        private let continuation: AsyncStream<Int>.Continuation
        init() { (told, continuation) = AsyncStream.makeStream() }
        func received(_ messages: [ByteBuffer]) { for message in messages { continuation.yield(message.readableBytes) } }
        func writabilityChanged(_ isWritable: Bool) {}
        func closed(_ end: ConnectionEnd) {
            continuation.yield(-Int(end.code))
            continuation.finish()
        }
    }

    /// All that was said before is heard.
    private func settle() async throws {
        for _ in 0..<3 { for loop in loops.makeIterator() { try await loop.submit {}.get() } }
    }

    @Test("Endless messages count towards the budget of all peers; the peer that holds the most is closed, and an honest peer continues")
    func unfinished() async throws {
        let memory = MemoryBudget(limit: 4 << 20)
        var limits = MessageEndpointLimits()
        limits.closeTime = 1
        let (opened, continuation) = AsyncStream<Session>.makeStream()
        let listener = MessageEndpointListener(
            protocolType: .byteStream, limits: limits, memory: memory, context: { EventLoopContext(loops.next()) },
            serve: { accepted in
                let session = Session()
                accepted.transport.start(session)
                continuation.yield(session)
            })
        var sessions = opened.makeAsyncIterator()
        func join() async -> (Line, Session)? {
            let line = Line(offers: true)
            listener.accept(line)
            return await sessions.next().map { (line, $0) }
        }
        var hostile: [(Line, Session)] = []
        for _ in 0..<20 {
            let (line, session) = try #require(await join())
            line.message(segments: 40, ends: false)
            hostile.append((line, session))
            try await settle()
            #expect(memory.used <= memory.limit)
        }
        // 640 KiB each: a few are left, and they are counted.
        let left = hostile.count { $0.0.closes == 0 }
        #expect((1...7).contains(left) && memory.used >= left * 640 << 10, "\(left), \(memory.used)")
        for (line, session) in hostile where line.closes > 0 {
            for await told in session.told { #expect(told == -1013) }
        }
        let (line, session) = try #require(await join())
        line.message(segments: 20, ends: true)
        var told = session.told.makeAsyncIterator()
        #expect(await told.next() == 20 * 16_384)
        await listener.closeAll()
        try await settle()
        #expect(memory.used == 0)
    }

    @Test("Of the connections that are not logged in yet, the oldest is closed to make room")
    func handshakes() async throws {
        var limits = MessageEndpointLimits()
        limits.handshakes = 4
        limits.closeTime = 1
        let listener = MessageEndpointListener(
            protocolType: .byteStream, limits: limits, context: { EventLoopContext(loops.next()) }, serve: { $0.transport.start(Session()) })
        let lines = (0..<10).map { _ in Line(offers: false) }
        for line in lines {
            listener.accept(line)
            try await settle()
        }
        #expect(lines.map(\.closes) == [1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
        await listener.closeAll()
    }
}
