import Testing
import Transport

@Suite struct LoginGuardTests {
    @Test func afterSomeFailuresEachFurtherOneDoublesTheWait() {
        var limits = LoginGuard.Limits()
        limits.attempts = 3
        limits.longestWait = 10
        var guarding = LoginGuard(limits: limits)
        for _ in 0..<3 { #expect(guarding.failed("10.0.0.7", at: 100) == nil) }
        #expect(guarding.wait("10.0.0.7", at: 100) == nil)
        #expect(guarding.failed("10.0.0.7", at: 100) == 1)
        #expect(guarding.wait("10.0.0.7", at: 100.25) == 0.75)
        #expect(guarding.wait("10.0.0.8", at: 100.25) == nil, "another address does not wait")
        #expect(guarding.wait("10.0.0.7", at: 101) == nil)
        #expect([2, 4, 8, 10, 10].allSatisfy { wait in guarding.failed("10.0.0.7", at: 101) == wait })
    }

    @Test func aSuccessAndTimeForgive() {
        var guarding = LoginGuard()
        for _ in 0..<22 { _ = guarding.failed("a", at: 0) }
        #expect(guarding.wait("a", at: 0) != nil)
        guarding.succeeded("a")
        #expect(guarding.wait("a", at: 0) == nil)
        #expect(guarding.failed("a", at: 0) == nil)

        for _ in 0..<22 { _ = guarding.failed("b", at: 0) }
        #expect(guarding.failed("b", at: 1000) == nil, "forgotten after login_memory")
    }

    @Test func manyAddressesDoNotGrowItWithoutBound() {
        var limits = LoginGuard.Limits()
        limits.attempts = 0
        limits.origins = 100
        var guarding = LoginGuard(limits: limits)
        for number in 0..<1000 { _ = guarding.failed("\(number)", at: Double(number) / 1000) }
        let remembered = (0..<1000).filter { guarding.wait("\($0)", at: 1) != nil }
        #expect(remembered.count <= 100)
        #expect(remembered.last == 999, "those that failed last are remembered")
    }
}
