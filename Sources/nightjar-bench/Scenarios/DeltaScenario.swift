import Documents
import DocumentStore

/// What deltas save, and what they cost, if one field of a large document changes.
struct DeltaScenario {
    var documents = 5_000
    var rounds = 5
    /// Size of a body.
    var bytes = 10_240

    private struct Run {
        var sent: Double
        var seconds: Double
    }

    func run(_ scratch: Scratch) async throws -> Report {
        var with: [Run] = []
        var without: [Run] = []
        for round in 0..<rounds {
            with.append(try await measure(scratch, "with-\(round)", usesDeltas: true))
            without.append(try await measure(scratch, "without-\(round)", usesDeltas: false))
        }
        let bodies = Double(documents * bytes)
        var report = Report(
            scenario: "delta", title: "one field changed in each of \(documents) documents of \(bytes) bytes, pushed to a hub that has the revision before")
        report.add("with deltas", "documents/s", with.map { Double(documents) / $0.seconds })
        report.add("without", "documents/s", without.map { Double(documents) / $0.seconds })
        report.add("without deltas, bytes sent / bytes of the bodies", "%", without.map { $0.sent / bodies * 100 })
        report.goal("bytes sent / bytes of the bodies", "%", with.map { $0.sent / bodies * 100 }, .atMost, 3)
        report.goal("speed with / without", "", zip(with, without).map { $1.seconds / $0.seconds }, .atLeast, 0.8)
        report.notes.append("both sides in one process; without deltas, too, what is sent is compressed")
        report.notes.append(machineLoad())
        return report
    }

    private func measure(_ scratch: Scratch, _ name: String, usesDeltas: Bool) async throws -> Run {
        let readings = Readings(size: bytes)
        return try await OneShot.with(scratch, name) { database, port, group in
            let push = OneShot(database: database, port: port, group: group, usesDeltas: usesDeltas)
            try await Insertion.save(readings.make(from: 0, count: documents), in: database)
            _ = try await push.run()
            guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
            for first in stride(from: 0, to: documents, by: Insertion.batch) {
                let changed = (first..<min(first + Insertion.batch, documents)).map { number in
                    (
                        id: readings.id(number),
                        body: Array(String(decoding: readings.body(number), as: UTF8.self).replacing("\"seq\":\(number),", with: "\"seq\":\(number + 1),").utf8)
                    )
                }
                try await database.write { transaction in
                    for document in changed {
                        let id = try DocumentID(document.id)
                        let parent = try transaction.document(collection, id)?.revision
                        try transaction.save(collection, id: id, body: document.body, parent: parent)
                    }
                }
            }
            let (counts, cost) = try await push.run()
            guard counts.pushed == UInt64(documents) else { throw BenchError("\(counts.pushed) of \(documents) documents were pushed") }
            guard (counts.deltas.sent > 0) == usesDeltas else { throw BenchError("\(counts.deltas.sent) deltas were sent") }
            return Run(sent: Double(counts.bytesSent), seconds: cost.seconds)
        }
    }
}
