import Testing

/// `Tests/run --simulate-seed` runs one seed: its trace is not to stand among those of others.
@Suite("Seeds that are asked for")
struct WishTests {
    @Test("every test of seeds says whether it runs beside the seed that is asked for")
    func oneSeedRunsAlone() {
        let code = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/Tests/SimulationTests/SeedTests.swift"), as: UTF8.self)
        let tests = code.split(separator: "\n").filter { $0.contains("@Test") }
        #expect(tests.count >= 7)
        #expect(tests.count { $0.contains("Wish.number(\"SEED\") != nil") } == 1)
        for test in tests { #expect(test.contains("Wish.number(\"SEED\")"), "it runs beside the seed that is asked for: \(test)") }
    }
}
