import Documents
import DocumentStore
import Environment
import HTTPServer
import Synchronization
import TestSupport
import Testing
import Transport

@testable import Replication

/// Servers whose answers take much memory: all replicators together stay within `limits.memory`, and honest servers are read beside them.
@Suite(.timeLimit(.minutes(5)))
struct CouchMemoryTests {
    /// The system's time; notes how long somebody wants to wait.
    private final class NotedTime: TimeSource {
        private let waits = Mutex<Set<UInt64>>([])
        func monotonicNanoseconds() -> UInt64 { SystemTime().monotonicNanoseconds() }
        func wallSeconds() -> Int64 { SystemTime().wallSeconds() }
        func hasWaited(seconds: UInt64) -> Bool { waits.withLock { $0.contains(seconds * 1_000_000_000) } }

        func sleep(nanoseconds: UInt64) async throws {
            waits.withLock { _ = $0.insert(nanoseconds) }
            try await SystemTime().sleep(nanoseconds: nanoseconds)
        }
    }

    private func replicator(
        _ database: TestDatabase, _ target: String, _ memory: MemoryBudget, continuous: Bool = false, environment: Environment = .system
    ) throws -> Replicator {
        let configuration = ReplicatorConfiguration(database, to: target, .pull, continuous: continuous)
        return Replicator(configuration: configuration, connector: try DatabaseClient(target), environment: environment, memory: memory, logger: quietLogger())
    }

    /// Pulls from an honest server while several replicators pull from one that answers like this.
    ///
    /// - Returns: the most memory that was in use.
    private func pull(_ limit: Int, beside replicators: Int, _ lie: @escaping CouchServer.Trouble) async throws -> Int {
        let memory = MemoryBudget(limit: limit)
        let (a, b) = (try TestDatabase(), try TestDatabase())
        try await CouchServer.with { liar, lies in
            liar.change { tree in for n in 0..<400 { tree.edit("lie-\(n)", "{}") } }
            liar.trouble(lie)
            let victims = try (0..<replicators).map { _ in try replicator(b, lies, memory, continuous: true) }
            for victim in victims { await victim.start() }
            try await eventually("the liar is asked") { liar.state.withLock { $0.requests.count > 5 * replicators } }
            try await CouchServer.with { server, target in
                server.change { tree in
                    for n in 0..<300 { tree.edit("small-\(n)", "{\"text\":\"\(String(repeating: "x", count: 3_000))\"}") }
                    tree.edit("large", "{\"text\":\"\(String(repeating: "x", count: limit / 4))\"}")
                }
                let (status, words) = await (try replicator(a, target, memory)).run { $0.error != nil }
                let here = try await a.body("large")?.utf8.count ?? 0
                #expect(status.error == nil && here > limit / 4, "\(words ?? ""), \(status), \(here)")
            }
            for victim in victims { await victim.stop() }
        }
        return memory.takeHighest()
    }

    @Test("answers of nothing but empty lists")
    func emptyLists() async throws {
        let highest = try await pull(8 << 20, beside: 4) { request, _ in
            guard request.path == "/db/_bulk_get" else { return nil }
            // For several documents, many that cannot be parsed; for few, as many as can be.
            let count = (request.headers.first("Content-Length").flatMap { Int($0) } ?? 0) > 2_000 ? 400_000 : 9_000
            return .json("{\"results\":[\(String(repeating: "[],", count: count))[]]}")
        }
        #expect(highest <= 11 << 20)
    }

    @Test("rows with long sequences")
    func longSequences() async throws {
        let tail = String(repeating: "9", count: 8_000)
        let highest = try await pull(8 << 20, beside: 4) { request, _ in
            guard request.path == "/db/_changes" else { return nil }
            let rows = (1...40).map { "{\"seq\":\"\($0)-\(tail)\",\"id\":\"lie-\($0)\",\"changes\":[{\"rev\":\"1-aa\"}]}" }
            return .json("{\"results\":[\(rows.joined(separator: ","))],\"last_seq\":\"\(rows.count)-\(tail)\",\"pending\":70000}")
        }
        #expect(highest <= 11 << 20)
    }

    @Test("a feed that ends where it begins is not asked again at once")
    func standing() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.trouble { request, _ in
                guard request.path == "/db/_changes" else { return nil }
                return .json("{\"results\":[{\"seq\":7,\"id\":\"lie\",\"changes\":[{\"rev\":\"1-aa\"}]}],\"last_seq\":0,\"pending\":7}")
            }
            let time = NotedTime()
            let replicator = try replicator(a, target, .unlimited, continuous: true, environment: Environment(time: time, random: SystemRandom()))
            await replicator.start()
            try await eventually("the feed is asked again") { server.count("GET /_changes") >= 2 }
            // Asked without a pause, there would be many.
            #expect(server.count("GET /_changes") <= 3)
            // Each time it is asked later.
            try await eventually("the pauses grow") { time.hasWaited(seconds: 2) && time.hasWaited(seconds: 4) }
            await replicator.stop()
        }
    }
}
