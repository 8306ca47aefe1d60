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
        for name in names { #expect(all.contains("\(name)("), "nightjar-bench all does not run \(name)") }
    }
}
