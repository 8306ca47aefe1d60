import Testing

@testable import Agent

/// What a listener remembers of answers that were cut for lack of memory.
@Suite struct AnswerShortageTests {
    @Test("a shortage lasts until ten minutes after the last answer was cut or request refused; the totals stay")
    func told() {
        let shortages = AnswerShortages()
        #expect(shortages.current(now: 0) == nil)
        shortages.note(.refused, from: "10.0.0.9", now: 900)
        #expect(shortages.current(now: 900)?.address == nil)
        shortages.note(.cut(bytes: 1 << 20), from: "10.0.0.7", now: 1_000)
        shortages.note(.cut(bytes: 1 << 20), from: "10.0.0.8", now: 1_500)
        let found = shortages.current(now: 2_099)
        #expect(found?.since == 900 && found?.cut == 2 && found?.refused == 1 && found?.address == "10.0.0.8")
        #expect(shortages.current(now: 2_100) == nil)
        shortages.note(.cut(bytes: 1 << 20), from: "10.0.0.7", now: 2_200)
        let next = shortages.current(now: 2_200)
        #expect(next?.since == 2_200 && next?.cut == 1 && next?.refused == 0)
        let totals = shortages.totals
        #expect(totals.cut == 3 && totals.refused == 1)
    }

    @Test("clients that ask for large documents are not said to read nothing, and what is to be set is enough for the largest")
    func large() throws {
        let shortages = AnswerShortages()
        for bytes in [4_000_000, 12_000_000, 2_000_000] { shortages.note(.cut(bytes: bytes), from: "10.0.0.7", now: 1) }
        let told = try #require(shortages.current(now: 1)).told(memory: 8 << 20)
        #expect(told.text.contains("documents of 6000000 bytes") && told.text.contains("3 answers cut") && !told.text.contains("stop reading"), "\(told)")
        #expect(told.remedy.hasPrefix("set limits: { memory: 46MiB } here"), "\(told)")
        let other = try #require(shortages.current(now: 1)).told(memory: 512 << 20)
        #expect(other.text.contains("stop reading") && other.remedy.contains("which clients stop reading"), "\(other)")
    }
}
