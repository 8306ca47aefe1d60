import LuaRuntime

/// The cost of one filter call, compared with the minimum cost of a call into Lua.
struct FilterScenario {
    var calls = 300_000
    var rounds = 9

    private static let plugins: [(label: String, source: String)] = [
        ("no field", "return { push_filter = function(doc, ctx) return true end }"),
        ("two fields", "return { push_filter = function(doc, ctx) return doc.type == \"reading\" and doc.value > 0 end }"),
        ("two late fields", "return { push_filter = function(doc, ctx) return doc.status ~= \"off\" and doc.battery > 0 end }"),
    ]

    func run() throws -> Report {
        let bare = try BareLua()
        var small: [LuaDocument] = []
        var large: [LuaDocument] = []
        var deep: [LuaDocument] = []
        // More than fit into the processor's first-level cache, as in a real push.
        for number in 0..<500 {
            small.append(Self.document(number, Readings()))
            large.append(Self.document(number, Readings(size: 3000)))
            deep.append(Self.document(number, Readings(size: 3000, isNoteFirst: true)))
        }
        let states = try Self.plugins.map { plugin in
            let state = try LuaPluginState(name: "bench", chunkName: "bench.lua", source: Array(plugin.source.utf8), host: LuaBareHost(.system))
            return (plugin.label, state, try state.makeUse(LuaContext(database: "plant", direction: "push", plugin: "bench", version: "1")))
        }
        let unlimited = try LuaPluginState(name: "bench", chunkName: "bench.lua", source: Array(Self.plugins[1].source.utf8), host: LuaBareHost(.system))
        let unlimitedUse = try unlimited.makeUse(LuaContext(database: "plant", direction: "push", plugin: "bench", version: "1"))
        unlimited.measureWithoutLimits()
        var costOfLimits: [Double] = []
        var empty: [Double] = []
        var inside: [Double] = []
        var cases: [(label: String, nanoseconds: [Double])] = []
        for round in 0..<rounds {
            var index = 0
            for (label, state, use) in states {
                let kinds = label == "two fields"
                    ? [("300 bytes", small), ("3 KB", large), ("3 KB, text before the value", deep)] : [("300 bytes", small)]
                for (kind, documents) in kinds {
                    // The baseline is measured before each case, so that changes of the clock frequency affect both.
                    empty.append(try nanoseconds(calls * 4) { bare.callEmptyFunction(times: calls * 4) })
                    let spent = try nanoseconds(calls) { try Self.ask(state, use, documents, times: calls) }
                    if label == "two fields", kind == "300 bytes" {
                        costOfLimits.append(spent / (try nanoseconds(calls) { try Self.ask(unlimited, unlimitedUse, documents, times: calls) }))
                    }
                    if round == 0 { cases.append(("\(label), \(kind)", [])) }
                    cases[index].nanoseconds.append(spent)
                    index += 1
                }
            }
            if let state = states.first?.1 {
                inside.append(try nanoseconds(calls * 4) { state.callEmptyFunction(times: calls * 4, isLua: true) })
            }
        }
        return report(empty, inside, cases, costOfLimits)
    }

    private func report(
        _ empty: [Double], _ inside: [Double], _ cases: [(label: String, nanoseconds: [Double])], _ costOfLimits: [Double]
    ) -> Report {
        var report = Report(scenario: "filter", title: "one filter call through the bridge, \(calls) calls a round, processor time")
        report.add("lua_pcall of an empty function", "ns", empty)
        report.add("the same in a sandboxed state", "ns", inside)
        for entry in cases { report.add("filter, \(entry.label)", "ns", entry.nanoseconds) }
        let perRound = cases.count
        func ratios(_ label: String) -> [Double] {
            guard let index = cases.firstIndex(where: { $0.label == label }) else { return [] }
            return cases[index].nanoseconds.enumerated().map { round, spent in spent / empty[round * perRound + index] }
        }
        report.goal("two fields of 300 bytes / empty lua_pcall", "times", ratios("two fields, 300 bytes"), .atMost, 10)
        report.goal("the same, the stricter bar", "times", ratios("two fields, 300 bytes"), .atMost, 6)
        report.goal("with limits / without", "times", costOfLimits, .atMost, 1.25)
        if let small = cases.first(where: { $0.label == "two fields, 300 bytes" }),
            let large = cases.first(where: { $0.label == "two fields, 3 KB" }),
            let deep = cases.first(where: { $0.label == "two fields, 3 KB, text before the value" })
        {
            report.goal("3 KB / 300 bytes", "times", zip(large.nanoseconds, small.nanoseconds).map { $0 / $1 }, .atMost, 4)
            report.goal(
                "3 KB, text before the value / 300 bytes", "times", zip(deep.nanoseconds, small.nanoseconds).map { $0 / $1 }, .atMost, 4)
        }
        report.notes.append("time, instruction and memory limits are on in every filter call; \(machineLoad())")
        return report
    }

    private static func document(_ number: Int, _ readings: Readings) -> LuaDocument {
        LuaDocument(id: readings.id(number), revision: "1-0123456789abcdef0123456789abcdef01234567", body: readings.body(number))
    }

    private func nanoseconds(_ times: Int, _ body: () throws -> Void) throws -> Double {
        let start = threadNanoseconds()
        try body()
        return Double(threadNanoseconds() - start) / Double(times)
    }

    /// In batches, like the plugin host.
    private static func ask(_ state: LuaPluginState, _ use: LuaUse, _ documents: [LuaDocument], times: Int) throws {
        var answers: [Bool] = []
        var passed = 0
        var asked = 0
        try documents.withUnsafeBufferPointer { documents in
            while asked < times {
                let first = asked % documents.count
                answers.removeAll(keepingCapacity: true)
                try state.callFilter(
                    .pushFilter, about: UnsafeBufferPointer(rebasing: documents[first..<min(documents.count, first + times - asked)]),
                    use: use, answers: &answers)
                for answer in answers where answer { passed += 1 }
                asked += answers.count
            }
        }
        guard passed == times else { throw BenchError("the filter passed \(passed) of \(times) documents") }
    }
}
