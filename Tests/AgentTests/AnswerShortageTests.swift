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
        shortages.note(.cut, from: "10.0.0.7", now: 1_000)
        shortages.note(.cut, from: "10.0.0.8", now: 1_500)
        let found = shortages.current(now: 2_099)
        #expect(found?.since == 900 && found?.cut == 2 && found?.refused == 1 && found?.address == "10.0.0.8")
        #expect(shortages.current(now: 2_100) == nil)
        shortages.note(.cut, from: "10.0.0.7", now: 2_200)
        let next = shortages.current(now: 2_200)
        #expect(next?.since == 2_200 && next?.cut == 1 && next?.refused == 0)
        let totals = shortages.totals
        #expect(totals.cut == 3 && totals.refused == 1)
    }
}
