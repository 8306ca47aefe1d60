import Documents
import DocumentStore

/// Whether a push whose filter rejects everything avoids repeating the work at its next start.
struct SecondStartScenario {
    var documents = 1_000_000
    var rounds = 1

    private static let plugin = "return { push_filter = function(doc) return false end }\n"

    func run(_ scratch: Scratch) async throws -> Report {
        let plugins = "\(scratch.path)/plugins"
        try Files.makeFolder(plugins)
        try Files.write(Self.plugin, to: "\(plugins)/none.lua")
        var first: [Double] = []
        var second: [Double] = []
        for round in 0..<rounds {
            try await OneShot.with(scratch, "second-start-\(round)") { database, port, group in
                try await Insertion.save(Readings().make(from: 0, count: documents), in: database)
                let push = OneShot(database: database, port: port, group: group, plugins: plugins)
                let before = try await push.run()
                guard before.counts.rejected == UInt64(documents) else { throw BenchError("\(before.counts.rejected) documents were rejected") }
                first.append(before.cost.seconds)
                second.append(try await push.run().cost.seconds)
            }
        }
        var report = Report(scenario: "second-start", title: "starts of a one-shot push of \(documents) documents of which the filter lets none pass")
        report.add("first start", "s", first)
        report.goal("second start", "s", second, .atMost, 1)
        report.notes.append(machineLoad())
        return report
    }
}
