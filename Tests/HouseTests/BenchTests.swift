import Testing

/// `nightjar-bench all` says that it runs every scenario.
@Suite("The benchmark")
struct BenchTests {
    @Test("Every scenario is one of those of `all`")
    func scenarios() {
        let all = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/Sources/nightjar-bench/Commands/AllCommand.swift"), as: UTF8.self)
        let names = SourceFiles.swift(under: "Sources/nightjar-bench/Scenarios").compactMap { $0.split(separator: "/").last?.dropLast(".swift".count) }
            .filter { $0.hasSuffix("Scenario") }
        #expect(names.count > 10)
        // What a crowd costs is half of it: peers that behave are to get on beside it.
        for name in ["HostileScenario", "CrowdScenario"] {
            let text = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/Sources/nightjar-bench/Scenarios/\(name).swift"), as: UTF8.self)
            #expect(text.contains("Companions(") && text.contains("longest wait"), "\(name)")
        }
        for name in names { #expect(all.contains("\(name)("), "nightjar-bench all does not run \(name)") }
    }
}
