import Documents
import DocumentStore
import NIOPosix
import Replication
import Transport

/// How long it takes until a write is visible at a continuous peer.
struct LatencyScenario {
    var writesPerSecond = 200
    var seconds = 20
    var rounds = 1
    var processes = 2

    func run(_ scratch: Scratch) async throws -> Report {
        var p50: [Double] = []
        var p99: [Double] = []
        var most: [Double] = []
        var saved: [Double] = []
        for round in 0..<rounds {
            let (ages, saves) = try await once("\(scratch.path)/latency-\(round)")
            let milliseconds = ages.map { Double($0) * 1e-6 }.sorted()
            p50.append(milliseconds.quantile(0.5))
            p99.append(milliseconds.quantile(0.99))
            most.append(milliseconds.last ?? 0)
            saved.append(saves.sorted().quantile(0.99))
        }
        var report = Report(
            scenario: "latency",
            title: "from the write call to readable on a continuous peer, \(writesPerSecond) writes/s for \(seconds) s, \(processes == 1 ? "one process" : "two processes")")
        report.add("p50", "ms", p50)
        report.add("max", "ms", most)
        report.add("of it: durable here, p99", "ms", saved)
        report.goal("p99", "ms", p99, .atMost, 50)
        report.notes.append("a document counts from the call of write to when a reader of the peer's change feed has its body; \(machineLoad())")
        return report
    }

    /// Ages at the peer in nanoseconds, and the milliseconds until each write was durable here.
    private func once(_ folder: String) async throws -> ([Int64], [Double]) {
        let count = writesPerSecond * seconds
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let database = try Database.open(folder: "\(folder).nightjar", name: "gateway")
        let peer = try await Peer.start("\(folder)-hub.nightjar", processes, group)
        let target = "ws://127.0.0.1:\(peer.port)/hub"
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(name: "bench", database: database, target: target, type: .pushAndPull, isContinuous: true),
            connector: WebSocketClient(.init(url: try EndpointURL(target)), group: group, environment: .system), environment: .system, logger: quietLogger("latency"))
        await replicator.start()
        for await status in replicator.statusChanges() {
            if status.activity == .idle { break }
            if status.activity == .stopped, let error = status.error { throw BenchError("the replicator stopped: \(error)") }
        }
        let saves = try await write(count, to: database)
        // The last documents are still in flight.
        let deadline = monotonicSeconds() + 30
        while replicator.status.counts.pushed < UInt64(count), monotonicSeconds() < deadline {
            try await Task.sleep(for: .milliseconds(50))
        }
        try await Task.sleep(for: .milliseconds(200))
        await replicator.stop()
        let ages = try await peer.finish()
        database.close()
        try await group.shutdownGracefully()
        guard ages.count == count else { throw BenchError("\(ages.count) of \(count) writes became visible at the peer") }
        return (ages, saves)
    }

    /// At a steady rate, whether or not earlier writes are complete: a slow moment must show in the figures, instead of slowing the writer down.
    private func write(_ count: Int, to database: Database) async throws -> [Double] {
        guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
        let generator = Readings(size: 280)
        let clock = ContinuousClock()
        let start = clock.now
        return try await withThrowingTaskGroup(of: Double.self) { tasks in
            for number in 0..<count {
                try await clock.sleep(until: start + .nanoseconds(number * (1_000_000_000 / writesPerSecond)))
                let id = try DocumentID(generator.id(number))
                let rest = generator.body(number).dropFirst()
                tasks.addTask {
                    let sent = monotonicNanoseconds()
                    let body = Watcher.prefix + Array("\(sent),".utf8) + rest
                    try await database.write { transaction in
                        _ = try transaction.save(collection, id: id, body: body, parent: nil)
                    }
                    return Double(monotonicNanoseconds() - sent) * 1e-6
                }
            }
            var saves: [Double] = []
            for try await save in tasks { saves.append(save) }
            return saves
        }
    }
}

/// The side that watches, in this process or in a separate one.
private enum Peer {
    case child(Child, port: Int)
    case here(Database, WebSocketListener, Watcher)

    static func start(_ folder: String, _ processes: Int, _ group: MultiThreadedEventLoopGroup) async throws -> Peer {
        if processes == 1 {
            let database = try Database.open(folder: folder, name: "hub")
            let (_, listener) = try await Hub.open(database, group: group)
            return .here(database, listener, Watcher(database))
        }
        let child = try Child(try Child.ownPath(), ["hub-child", "--folder", folder, "--watch"])
        return .child(child, port: Int(try child.values().number("port")))
    }

    var port: Int {
        switch self {
        case .child(_, let port): port
        case .here(_, let listener, _): listener.port
        }
    }

    func finish() async throws -> [Int64] {
        switch self {
        case .child(let child, _):
            child.closeInput()
            _ = try child.line()
            guard let ages = try child.values()["ages"] else { throw BenchError("the hub told no ages") }
            child.wait()
            return ages.split(separator: ",").compactMap { Int64($0) }
        case .here(let database, let listener, let watcher):
            let ages = await watcher.stop()
            await listener.stop()
            database.close()
            return ages
        }
    }
}
