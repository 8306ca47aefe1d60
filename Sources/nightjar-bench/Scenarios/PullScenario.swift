import DocumentStore
import NIOPosix
import Replication

/// A one-shot pull of a whole database, compared with inserting the same documents.
struct PullScenario {
    var documents = 100_000
    var rounds = 5

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings().make(from: 0, count: documents)
        var inserts: [Cost] = []
        var pulls: [Cost] = []
        for round in 0..<rounds {
            let hub = "\(scratch.path)/hub-\(round).nightjar"
            let gateway = "\(scratch.path)/pull-\(round).nightjar"
            inserts.append(try await Insertion.store(readings, folder: hub))
            pulls.append(try await pull(from: hub, into: gateway))
            for folder in [hub, gateway] { Files.remove(folder) }
        }
        let count = Double(documents)
        var report = Report(
            scenario: "pull", title: "one-shot pull of \(documents) documents of 300 bytes over a loopback WebSocket, compressed, both ends durable, one process")
        report.add("insert", "documents/s", inserts.map { count / $0.seconds })
        report.add("pull", "documents/s", pulls.map { count / $0.seconds })
        report.add("insert, CPU", "µs/document", inserts.map { $0.cpuSeconds / count * 1e6 })
        report.add("pull, CPU of both sides", "µs/document", pulls.map { $0.cpuSeconds / count * 1e6 })
        report.goal("pull / insert", "", zip(inserts, pulls).map { $0.seconds / $1.seconds }, .atLeast, 0.2)
        report.notes.append(machineLoad())
        return report
    }

    private func pull(from hub: String, into gateway: String) async throws -> Cost {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let database = try Database.open(folder: hub, name: "hub")
        let (_, listener) = try await Hub.open(database, group: group)
        let pulled = try await OneShotReplication.run(folder: gateway, port: listener.port, type: .pull)
        await listener.stop()
        database.close()
        try await group.shutdownGracefully()
        guard pulled.documents == documents else { throw BenchError("\(pulled.documents) of \(documents) documents were pulled") }
        return pulled.cost
    }
}
