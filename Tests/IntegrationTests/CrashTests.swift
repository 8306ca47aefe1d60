import Glibc
import Synchronization
import TestRandomness
import TestSupport
import Testing

/// kill -9 in the middle of a push: what was acknowledged is there, and both sides come to the same.
@Suite("Sudden death", .serialized)
struct CrashTests {
    /// Saves documents one by one until the agent is gone, and remembers which were acknowledged.
    private final class Writer: Sendable {
        private let acknowledged = Mutex<[String: String]>([:])
        private let task = Mutex<Task<Void, Never>?>(nil)

        func start(_ agent: AgentProcess, _ prefix: String) {
            let work = Task {
                for n in 0... {
                    guard !Task.isCancelled, let rev = try? await agent.save("\(prefix)-\(n)", "{\"n\":\(n)}") else { return }
                    acknowledged.withLock { $0["\(prefix)-\(n)"] = rev }
                }
            }
            task.withLock { $0 = work }
        }

        func stop() async -> [String: String] {
            let work = task.withLock { $0 }
            work?.cancel()
            await work?.value
            return acknowledged.withLock { $0 }
        }
    }

    private static let count = 3000

    /// Runs both agents, kills one at random moments, and checks after each restart.
    private func run(killsHub: Bool) async throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        let port = try freePort()
        var hub = try await AgentProcess.start(Configuration.hub(port: port))
        var edge = try await AgentProcess.start(Configuration.edge(to: port, database: "main"))
        var acknowledged: [String: String] = [:]
        for round in 0..<3 {
            let before = try await hub.documents("main")
            let writer = Writer()
            // The writer is on the side that dies.
            writer.start(killsHub ? hub : edge, "single-\(round)")
            #expect(try await edge.load("batch-\(round)", Self.count) == Int64(Self.count))
            let moment = Int64(random.next() % UInt64(Self.count))
            let watched = hub
            try await eventually("\(moment) documents have arrived (seed \(seed))") { try await watched.documents("main") >= before + moment }
            if killsHub { try await hub.kill9() } else { try await edge.kill9() }
            acknowledged.merge(await writer.stop()) { $1 }
            if killsHub {
                hub = try await AgentProcess.start(try hub.folder.text("nightjar.yaml"), in: hub.folder)
            } else {
                edge = try await AgentProcess.start(try edge.folder.text("nightjar.yaml"), in: edge.folder)
            }
            let died = try await (killsHub ? hub : edge).revisions()
            for (id, rev) in acknowledged { #expect(died[id] == rev, "\(id) was acknowledged and is lost (seed \(seed), round \(round))") }
            for n in 0..<Self.count where !killsHub { #expect(died["batch-\(round)-\(n)"] != nil, "imported and lost: \(n) (seed \(seed))") }
        }
        let (here, there) = (edge, hub)
        let total = Int64(3 * Self.count + acknowledged.count)
        // A save may have been stored whose answer never came.
        try await eventually("both sides have everything (seed \(seed))") {
            let counts = try await [here.documents("main"), there.documents("main")]
            return counts[0] == counts[1] && counts[0] >= total
        }
        try await edge.isSettled()
        #expect(try await edge.revisions() == hub.revisions(), "seed \(seed)")
        #expect(try await edge.documents("main") <= total + 3, "seed \(seed)")
        #expect(try await every(edge.isWell(), hub.isWell()))
        for agent in [edge, hub] {
            let rows = try await agent.admin.get("/api/databases/main/documents").json.asArray?.count ?? 0
            #expect(try await rows == agent.revisions().count, "a document is there twice (seed \(seed))")
        }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("of the pushing side") func pushingSide() async throws { try await run(killsHub: false) }

    @Test("of the receiving side") func receivingSide() async throws { try await run(killsHub: true) }

    @Test("a revision that was acknowledged is there after it")
    func acknowledgedRevisions() async throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        let folder = try TemporaryFolder()
        var acknowledged: [String] = []
        for round in 0..<5 {
            let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
            let stored = try await agent.revisions()
            for id in acknowledged { #expect(stored[id] == "1-aa", "\(id) (seed \(seed))") }
            let peer = try await Peer.connect(agent)
            // Several in flight, so that the end falls between rev and reply.
            for batch in 0..<Int(1 + random.next() % 20) {
                let ids = (0..<10).map { "r\(round)-\(batch)-\($0)" }
                let replies = try await peer.ask(ids.map { Peer.revision($0) })
                for (id, reply) in zip(ids, replies) where reply.error == nil { acknowledged.append(id) }
            }
            let last = Task { try await peer.ask((0..<50).map { Peer.revision("last-\(round)-\($0)") }) }
            try await agent.kill9()
            if let replies = try? await last.value {
                for (n, reply) in replies.enumerated() where reply.error == nil { acknowledged.append("last-\(round)-\(n)") }
            }
        }
        let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
        let stored = try await agent.revisions()
        for id in acknowledged { #expect(stored[id] == "1-aa", "\(id) (seed \(seed))") }
        #expect(try await agent.stop().status == 0)
    }
}
