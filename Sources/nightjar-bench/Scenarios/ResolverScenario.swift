import LuaRuntime

/// The cost of one conflict: the shipped three-way merge over documents with 12 to 1,000 fields.
struct ResolverScenario {
    var calls = 3_000
    var rounds = 7
    /// The folder that holds merge-fields.lua.
    var plugins: String

    private static let fields = [12, 50, 100, 250, 500, 1_000]

    func run() throws -> Report {
        let source = try Files.contents("\(plugins)/merge-fields.lua")
        let state = try LuaPluginState(name: "merge-fields", chunkName: "merge-fields.lua", source: source, host: LuaBareHost(.system))
        let use = try state.makeUse(
            LuaContext(params: .members([("prefer", .text("remote"))]), database: "plant", direction: "pull", plugin: "merge-fields", version: "1"))
        let conflicts = Self.fields.map { Self.conflict($0) }
        var microseconds = [[Double]](repeating: [], count: conflicts.count)
        for _ in 0..<rounds {
            for (index, conflict) in conflicts.enumerated() {
                let times = max(3, calls * 12 / Self.fields[index])
                let start = threadNanoseconds()
                for _ in 0..<times {
                    guard case .merged(let body) = try state.callResolve(conflict, use: use), body.count > Self.fields[index] * 5 else {
                        throw BenchError("the resolver did not merge \(Self.fields[index]) fields")
                    }
                }
                microseconds[index].append(Double(threadNanoseconds() - start) / Double(times) / 1_000)
            }
        }
        var report = Report(scenario: "resolver", title: "merge-fields on a base, a third of the fields changed on each side, processor time")
        for (index, count) in Self.fields.enumerated() { report.add("\(count) fields", "µs", microseconds[index]) }
        // A tenth more per field for each tenfold growth comes from the allocator and caches; a quadratic merge would be at 10.
        report.goal(
            "a field of 1,000 / a field of 100", "times", zip(microseconds[5], microseconds[2]).map { $0 / 1_000 / ($1 / 100) }, .atMost, 2)
        report.notes.append("each value of the merge is encoded to compare it where it is an object; \(machineLoad())")
        return report
    }

    /// Of every three fields, one is changed locally, one remotely, and one not at all.
    private static func conflict(_ fields: Int) -> LuaConflict {
        func body(_ side: Int) -> [UInt8] {
            let members = (0..<fields).map { field in
                "\"field_\(field)\":" + (field % 3 == side ? "\(field * 10 + side).5" : field % 4 == 0 ? "\"text of \(field)\"" : "\(field)")
            }
            return Array("{\(members.joined(separator: ","))}".utf8)
        }
        func document(_ side: Int, _ revision: String) -> LuaDocument { LuaDocument(id: "d", revision: revision, body: body(side)) }
        return LuaConflict(
            id: "d", local: document(0, "2-aaaa"), remote: document(1, "2-bbbb"), base: document(3, "1-cccc"), localRevision: "2-aaaa",
            remoteRevision: "2-bbbb", baseRevision: "1-cccc")
    }
}
