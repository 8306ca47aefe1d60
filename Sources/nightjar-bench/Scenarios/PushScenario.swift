/// What fraction of the store's own speed remains when documents are pushed to another agent.
struct PushScenario {
    var documents = 100_000
    var rounds = 5
    var processes = 2

    /// The rate between two Couchbase Lite databases on a machine like the project's, in documents per second.
    static let couchbaseLite = 6_100.0

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings().make(from: 0, count: documents)
        var inserts: [Cost] = []
        var pushes: [PushRun] = []
        for round in 0..<rounds {
            let source = "\(scratch.path)/push-\(round).nightjar"
            inserts.append(try await Insertion.store(readings, folder: source))
            pushes.append(
                try await PushRun.run(
                    source: source, hub: "\(scratch.path)/hub-\(round).nightjar", documents: documents, processes: processes))
            Files.remove(source)
        }
        let count = Double(documents)
        var report = Report(
            scenario: "push",
            title: "one-shot push of \(documents) documents of 300 bytes over a loopback WebSocket, compressed, both ends durable, \(processes == 1 ? "one process" : "two processes")")
        report.add("insert", "documents/s", inserts.map { count / $0.seconds })
        report.add("push", "documents/s", pushes.map { count / $0.seconds })
        report.add("insert, CPU", "µs/document", inserts.map { $0.cpuSeconds / count * 1e6 })
        report.add("push, CPU of both sides", "µs/document", pushes.map { $0.cpuSeconds / count * 1e6 })
        if processes == 2 {
            report.add("peak memory of the pusher", "MB", pushes.compactMap(\.pusherPeak))
            report.add("peak memory of the hub", "MB", pushes.compactMap(\.hubPeak))
        }
        report.goal("push / insert", "", zip(inserts, pushes).map { $0.seconds / $1.seconds }, .atLeast, 0.2)
        report.goal("push (2 x Couchbase Lite's \(Int(Self.couchbaseLite)))", "documents/s", pushes.map { count / $0.seconds }, .atLeast, 2 * Self.couchbaseLite)
        report.notes.append(machineLoad())
        return report
    }
}
