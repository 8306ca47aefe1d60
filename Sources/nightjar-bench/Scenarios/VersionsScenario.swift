import Documents
import DocumentStore
import Environment
import Interfaces
import NIOPosix
import Replication
import Transport

/// The cost of version vectors: two databases that identify revisions with them, compared with two that use revision ids; and the cost of comparing
/// two vectors.
struct VersionsScenario {
    var documents = 50_000
    var rounds = 5

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings().make(from: 0, count: documents)
        var pushes: [Subprotocol: [Cost]] = [:]
        var pulls: [Subprotocol: [Cost]] = [:]
        for round in 0..<rounds {
            for subprotocol in [Subprotocol.generation3, .generation4] {
                for type in [ReplicatorType.push, .pull] {
                    let cost = try await replicate(readings, type, subprotocol, "\(scratch.path)/\(type)-\(subprotocol)-\(round)")
                    if type == .push { pushes[subprotocol, default: []].append(cost) } else { pulls[subprotocol, default: []].append(cost) }
                }
            }
        }
        var report = Report(
            scenario: "versions", title: "\(documents) documents of 300 bytes between two databases of one process, each with a version, and without")
        let count = Double(documents)
        for (name, runs) in [("push", pushes), ("pull", pulls)] {
            let (ids, versions) = (runs[.generation3] ?? [], runs[.generation4] ?? [])
            report.add("\(name) by revision ids, CPU of both sides", "µs/document", ids.map { $0.cpuSeconds / count * 1e6 })
            report.add("\(name) by versions, CPU of both sides", "µs/document", versions.map { $0.cpuSeconds / count * 1e6 })
            report.goal("\(name): speed by versions / by ids", "", zip(ids, versions).map { $0.seconds / $1.seconds }, .atLeast, 0.9)
        }
        report.goal("both names of a document with one author, stored", "bytes", [try storedBytes()], .atMost, 64)
        report.goal("comparing two vectors of 4 sources", "ns", try (0..<rounds).map { try comparison(seed: UInt64($0)) }, .atMost, 100)
        report.notes.append(machineLoad())
        return report
    }

    private func replicate(_ readings: [Reading], _ type: ReplicatorType, _ subprotocol: Subprotocol, _ folder: String) async throws -> Cost {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        var options = DatabaseOptions()
        options.versionsEdits = subprotocol == .generation4
        let folders = ["\(folder)-from.nightjar", "\(folder)-to.nightjar"]
        let from = try Database.open(folder: folders[0], name: "from", options: options)
        let to = try Database.open(folder: folders[1], name: "to", options: options)
        try await Insertion.save(readings, in: from)
        let (active, passive) = type == .push ? (from, to) : (to, from)
        let logger = quietLogger("versions")
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(
                name: "bench", database: active, target: "local:bench", type: type, collections: [CollectionReplication(collection: .default)]),
            connector: JoinedConnector(passive: passive, subprotocol: subprotocol, group: group), environment: .system, logger: logger)
        let start = Stopwatch()
        await replicator.start()
        let status = await replicator.waitUntilStopped()
        let cost = start.cost
        if let error = status.error { throw BenchError("the \(type) failed: \(error)") }
        let received = try await to.statistics().reduce(0) { $0 + $1.documents }
        guard received == readings.count else { throw BenchError("\(received) of \(readings.count) documents have come") }
        guard to.hasVersions == options.versionsEdits else { throw BenchError("hasVersions is \(to.hasVersions)") }
        from.close()
        to.close()
        try await group.shutdownGracefully()
        for folder in folders { Files.remove(folder) }
        return cost
    }

    /// The stored size of a document's tree with one revision and its version.
    private func storedBytes() throws -> Double {
        let revision = RevisionDigest.revision(parent: nil, deleted: false, canonicalBody: Array("{}".utf8))
        let vector = try VectorHistory("18e9000000000005@ABEiM0RVZneImaq7zN3u/w", history: "").vector
        guard let bytes = RevisionTree.encoded(revision, isDeleted: false, vector: vector) else { throw BenchError("\(revision) is of no tree") }
        return Double(bytes.count)
    }

    /// Nanoseconds for one comparison, averaged over pairs in every possible relation.
    private func comparison(seed: UInt64) throws -> Double {
        var random = SplitMix(seed: seed)
        let sources = ["AAAAAAAAAAAAAAAAAAAAAA", "ABEiM0RVZneImaq7zN3u/w", "BBEiM0RVZneImaq7zN3u/w", "CBEiM0RVZneImaq7zN3u/w"]
        let vectors = try (0..<64).map { _ in
            let shift = Int(random.next() % 4)
            let versions = (0..<4).map { place in "\(String(0x1000 - place * 0x100 + Int(random.next() % 0x100), radix: 16))@\(sources[(place + shift) % 4])" }
            return try VectorHistory(versions[0], history: versions.dropFirst().joined(separator: ",")).vector
        }
        let times = 2_000
        var seen: [VersionVector.Relation: Int] = [:]
        let start = threadNanoseconds()
        for _ in 0..<times {
            for pair in 0..<32 { seen[vectors[2 * pair].relation(to: vectors[2 * pair + 1]), default: 0] += 1 }
        }
        let spent = threadNanoseconds() - start
        guard seen.count > 1, seen.values.reduce(0, +) == times * 32 else { throw BenchError("the vectors compare as \(seen)") }
        return Double(spent) / Double(times * 32)
    }
}

/// Both sides of the protocol in this process, joined in memory.
private struct JoinedConnector: TransportConnector {
    let passive: Database
    let subprotocol: Subprotocol
    let group: MultiThreadedEventLoopGroup

    func connect() async throws -> any MessageTransport {
        let (active, other) = InMemoryTransport.pair(group.next(), group.next(), names: ("bench", "bench"), subprotocol: subprotocol)
        let session = ReplicationSession(
            transport: other, role: .passive(PassiveConfiguration(listener: "bench", database: passive, subprotocol: subprotocol)),
            environment: .system, memory: MemoryBudget(limit: 64 << 20), logger: quietLogger("versions"))
        await session.start()
        return active
    }
}
