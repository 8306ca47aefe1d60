/// How much a Lua filter slows down a push.
struct PushFilterScenario {
    var documents = 100_000
    var rounds = 5
    var processes = 2

    /// Reads two fields and passes every document.
    static let plugin = """
        return {
          description = "Reads two fields of every reading",
          push_filter = function(doc, ctx)
            return doc.type == "reading" and doc.value > 0
          end,
        }

        """

    func run(_ scratch: Scratch) async throws -> Report {
        let plugins = "\(scratch.path)/plugins"
        try Files.makeFolder(plugins)
        try Files.write(Self.plugin, to: "\(plugins)/two-fields.lua")
        let original = "\(scratch.path)/original.nightjar"
        _ = try await Insertion.store(Readings().make(from: 0, count: documents), folder: original)
        var without: [PushRun] = []
        var with: [PushRun] = []
        for round in 0..<rounds {
            for filter in [nil, plugins] {
                let name = "\(scratch.path)/\(filter == nil ? "without" : "with")-\(round)"
                try Files.copyFolder(original, "\(name).nightjar")
                let run = try await PushRun.run(
                    source: "\(name).nightjar", hub: "\(name)-hub.nightjar", documents: documents, processes: processes, plugins: filter)
                Files.remove("\(name).nightjar")
                if filter == nil { without.append(run) } else { with.append(run) }
            }
        }
        Files.remove(original)
        let count = Double(documents)
        var report = Report(
            scenario: "push-filter", title: "the push of \(documents) documents with a Lua filter that reads two fields and passes all")
        report.add("without filter", "documents/s", without.map { count / $0.seconds })
        report.add("with filter", "documents/s", with.map { count / $0.seconds })
        report.add("without filter, CPU", "µs/document", without.map { $0.cpuSeconds / count * 1e6 })
        report.add("with filter, CPU", "µs/document", with.map { $0.cpuSeconds / count * 1e6 })
        report.goal("with / without", "", zip(without, with).map { $0.seconds / $1.seconds }, .atLeast, 0.9)
        report.notes.append(machineLoad())
        return report
    }
}
