import Testing
import Transport

@Suite struct LoginGuardTests {
    private func login(_ user: String, _ origin: String) -> LoginGuard.Login { LoginGuard.Login(user: user, origin: origin) }

    @Test func afterSomeFailuresEachFurtherOneDoublesTheWait() {
        var limits = LoginGuard.Limits()
        limits.attempts = 3
        limits.longestWait = 10
        var guarding = LoginGuard(limits: limits)
        let ada = login("ada", "10.0.0.7")
        for _ in 0..<3 { #expect(guarding.failed(ada, at: 100) == nil) }
        #expect(guarding.wait(ada, at: 100) == nil)
        #expect(guarding.failed(ada, at: 100) == 1)
        #expect(guarding.wait(ada, at: 100.25) == 0.75)
        #expect(guarding.wait(login("bob", "10.0.0.8"), at: 100.25) == nil, "another user at another address does not wait")
        #expect(guarding.wait(ada, at: 101) == nil)
        #expect([2, 4, 8, 10, 10].allSatisfy { wait in guarding.failed(ada, at: 101) == wait })
    }

    @Test func guessesCountForTheUserWhereverTheyComeFrom() {
        var guarding = LoginGuard()
        for number in 0..<21 { _ = guarding.failed(login("ada", "10.0.0.\(number)"), at: 0) }
        #expect(guarding.wait(login("ada", "10.0.9.9"), at: 0) != nil)
        #expect(guarding.wait(login("bob", "10.0.9.9"), at: 0) == nil)
    }

    @Test func guessesCountForTheAddressWhoeverIsGuessed() {
        var guarding = LoginGuard()
        for number in 0..<21 { _ = guarding.failed(login("user-\(number)", "10.0.0.7"), at: 0) }
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 0) != nil)
        #expect(guarding.wait(login("ada", "10.0.0.8"), at: 0) == nil)
    }

    @Test func whoHasNotFailedAtAnAddressDoesNotWaitForGuessesAtSomebodyElse() {
        var guarding = LoginGuard()
        for _ in 0..<1000 { _ = guarding.failed(login("victim", "10.0.0.7"), at: 0) }
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 0) == nil)
        #expect(guarding.wait(login("victim", "10.0.0.7"), at: 0) == 300)
        // A user who mistypes in the meantime waits for seconds.
        _ = guarding.failed(login("ada", "10.0.0.7"), at: 0)
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 0) == 5)
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 5) == nil)
        #expect(guarding.wait(login("bob", "10.0.0.7"), at: 0) == nil)
    }

    @Test func whoHasNotFailedAtAnAddressWaitsASecondWhereEverOtherNamesFail() {
        var guarding = LoginGuard()
        for number in 0..<60 { _ = guarding.failed(login("user-\(number)", "10.0.0.7"), at: 0) }
        #expect(guarding.wait(login("user-59", "10.0.0.7"), at: 0) == 5, "all of them together get one look in that time")
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 0) == 1)
        #expect(guarding.waitsForOthersOnly(login("ada", "10.0.0.7"), at: 0))
        #expect(!guarding.waitsForOthersOnly(login("user-59", "10.0.0.7"), at: 0))
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 5) == nil)
        // One look for all that have not failed yet: names that are made up buy no more.
        _ = guarding.failed(login("made-up", "10.0.0.7"), at: 5)
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 5) == 1)
        #expect(guarding.wait(login("made-up", "10.0.0.7"), at: 9) != nil)
        #expect(guarding.wait(login("ada", "10.0.0.7"), at: 11) == nil)
        // A user whose password somebody guesses at has to wait, whoever it was.
        for number in 0..<21 { _ = guarding.failed(login("bob", "10.1.0.\(number)"), at: 11) }
        #expect(guarding.wait(login("bob", "10.0.0.7"), at: 11) != nil)
        #expect(!guarding.waitsForOthersOnly(login("bob", "10.0.0.7"), at: 11))
    }

    @Test func aSuccessOfOneUserForgivesNoGuessesAtAnother() {
        var guarding = LoginGuard()
        for _ in 0..<22 {
            _ = guarding.failed(login("victim", "10.0.0.7"), at: 0)
            guarding.succeeded(login("mallory", "10.0.0.7"), at: 0)
        }
        #expect(guarding.wait(login("victim", "10.0.0.7"), at: 0) != nil)
        _ = guarding.failed(login("other", "10.0.0.7"), at: 0)
        #expect(guarding.wait(login("other", "10.0.0.7"), at: 0) != nil, "nor those of the address")
        #expect(guarding.wait(login("mallory", "10.0.0.7"), at: 0) == nil)
    }

    @Test func aUserWhoIsKnownAtAnAddressCannotBeLockedOutByOthers() {
        var guarding = LoginGuard()
        let ada = login("ada", "10.0.0.7")
        guarding.succeeded(ada, at: 0)
        for number in 0..<30 {
            _ = guarding.failed(login("ada", "10.1.0.\(number)"), at: 0)
            _ = guarding.failed(login("user-\(number)", "10.0.0.7"), at: 0)
        }
        #expect(guarding.wait(ada, at: 0) == nil)
        for _ in 0..<21 { _ = guarding.failed(ada, at: 0) }
        #expect(guarding.wait(ada, at: 0) != nil, "but guessed at it can be from there too")
        guarding.succeeded(ada, at: 0)
        #expect(guarding.failed(ada, at: 0) == nil, "and its own success forgives its own mistakes")
    }

    @Test func timeForgives() {
        var guarding = LoginGuard()
        for _ in 0..<22 { _ = guarding.failed(login("b", "b"), at: 0) }
        #expect(guarding.failed(login("b", "b"), at: 1000) == nil, "forgotten after login_memory")
    }

    @Test func manyAddressesDoNotGrowItWithoutBound() {
        var limits = LoginGuard.Limits()
        limits.attempts = 0
        limits.entries = 100
        var guarding = LoginGuard(limits: limits)
        for number in 0..<1000 { _ = guarding.failed(login("\(number)", "\(number)"), at: Double(number) / 1000) }
        let remembered = (0..<1000).filter { guarding.wait(login("\($0)", "\($0)"), at: 1) != nil }
        #expect(remembered.count <= 100)
        #expect(remembered.last == 999, "those that failed last are remembered")
    }
}
