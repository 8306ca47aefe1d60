/// What fraction of raw SQLite's speed the store achieves.
struct InsertScenario {
    var documents = 100_000
    var rounds = 5
    var hasRandomIDs = false

    func run(_ scratch: Scratch) async throws -> Report {
        let readings = Readings(hasRandomIDs: hasRandomIDs).make(from: 0, count: documents)
        var raw: [Cost] = []
        var store: [Cost] = []
        for round in 0..<rounds {
            raw.append(try Insertion.raw(readings, folder: "\(scratch.path)/raw-\(round)"))
            let folder = "\(scratch.path)/insert-\(round).nightjar"
            store.append(try await Insertion.store(readings, folder: folder))
            Files.remove(folder)
        }
        let count = Double(documents)
        var report = Report(
            scenario: "insert",
            title: "\(documents) documents of 300 bytes, \(hasRandomIDs ? "random" : "ascending") ids, durable batches of \(Insertion.batch)")
        report.add("raw SQLite", "documents/s", raw.map { count / $0.seconds })
        report.add("nightjar", "documents/s", store.map { count / $0.seconds })
        report.add("raw SQLite, CPU", "µs/document", raw.map { $0.cpuSeconds / count * 1e6 })
        report.add("nightjar, CPU", "µs/document", store.map { $0.cpuSeconds / count * 1e6 })
        report.add("nightjar / raw SQLite, CPU", "", zip(raw, store).map { $0.cpuSeconds / $1.cpuSeconds })
        report.goal("nightjar / raw SQLite", "", zip(raw, store).map { $0.seconds / $1.seconds }, .atLeast, 0.4)
        report.notes.append(machineLoad())
        return report
    }
}
