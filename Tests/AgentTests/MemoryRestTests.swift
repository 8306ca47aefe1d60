@testable import Agent
import Testing

/// When the process's memory counts as its use at rest.
@Suite struct MemoryRestTests {
    private let megabyte = 1 << 20

    /// The number of the check at which it is at rest; nil if it is not within 20.
    private func rests(_ check: (_ number: Int) -> (highest: Int, used: Int, uncounted: Int)) -> Int? {
        var rest = MemoryRest(limit: 64 << 20)
        return (1...20).first { number in
            let each = check(number)
            return rest.isAtRest(highest: each.highest * megabyte, used: each.used * megabyte, uncounted: each.uncounted * megabyte)
        }
    }

    @Test func afterSomeChecksWithNextToNothingHeld() {
        #expect(rests { _ in (4, 0, 30) } == MemoryRest.checks)
        #expect(rests { $0 == 3 ? (50, 0, 20) : (1, 0, $0 < 3 ? 0 : 30) } == 3 + MemoryRest.checks)
    }

    @Test func notWhileMuchIsHeld() {
        #expect(rests { _ in (50, 50, 0) } == nil)
        #expect(rests { _ in (50, 5, 0) } == nil)
    }

    /// As when a client repeats a large request each second.
    @Test func whatStaysBetweenBurstsIsNotGoingToBeReturned() {
        #expect(rests { _ in (50, 0, 30) } == 1 + MemoryRest.checks)
        #expect(rests { (50, 0, $0 * 10 % 40) } == nil)
    }

    /// What connections leave that end at rest is returned some time later.
    @Test func freeMemoryIsReturnedBeforeTheUseAtRestIsTaken() {
        var rest = MemoryRest(limit: 64 << 20)
        var returned: [Int] = []
        for check in 1...70 {
            _ = rest.isAtRest(highest: 0, used: 0, uncounted: check == 50 ? 10 << 20 : 0)
            if rest.returnsFreeMemory { returned.append(check) }
        }
        #expect(returned == [5, 30, 50, 60])
    }
}
