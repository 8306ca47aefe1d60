import DocumentStore
import Documents
import Testing

@testable import Replication

/// Others undo the results of a document's conflict again and again.
@Suite struct DecisionPausesTests {
    private let a = doc("a")

    /// As often as a document is decided at once.
    private func worn() -> DecisionPauses {
        var pauses = DecisionPauses(limit: 10)
        for _ in 0..<DecisionPauses.atOnce {
            #expect(pauses.turn(of: a) == .now)
            pauses.decided(a)
        }
        return pauses
    }

    /// - Returns: after how many intervals the document's pause is over.
    private func intervals(_ pauses: inout DecisionPauses) -> Int {
        for number in 1...300 {
            let started = [pauses.startInterval(), pauses.startInterval()]
            #expect(started == [true, false])
            if pauses.elapsed() == [a] { return number }
        }
        return 0
    }

    @Test func pausesGrowAndOtherDocumentsHaveNone() {
        var pauses = worn()
        for seconds in [15, 30, 60, 120, 120] {
            #expect(pauses.turn(of: a) == .after(seconds: seconds))
            // It is paused already.
            #expect(pauses.turn(of: doc("b")) == .now)
            #expect(pauses.paused == 1)
            let count = intervals(&pauses)
            #expect(count == seconds / 15)
            #expect(pauses.paused == 0)
            pauses.decided(a)
        }
    }

    /// It may be somebody's edit.
    @Test func anotherRevisionOfThePeerIsDecidedAfterOneInterval() {
        var pauses = worn()
        for seconds in [15, 30, 60, 120] {
            #expect(pauses.turn(of: a) == .after(seconds: seconds))
            #expect(pauses.turn(of: a) == .later)
            let count = intervals(&pauses)
            #expect(count == 1)
            pauses.decided(a)
        }
    }

    @Test func whatIsDecidedNowAndThenIsNotPaused() {
        var pauses = DecisionPauses(limit: 10)
        for _ in 0..<100 {
            for _ in 0..<DecisionPauses.perInterval {
                #expect(pauses.turn(of: a) == .now)
                pauses.decided(a)
            }
            let isStarted = pauses.startInterval()
            #expect(isStarted)
            _ = pauses.elapsed()
        }
        let isStarted = pauses.startInterval()
        #expect(!isStarted)
    }

    @Test func afterSomeQuietItIsDecidedAtOnceAgain() {
        var pauses = worn()
        #expect(pauses.turn(of: a) == .after(seconds: 15))
        let count = intervals(&pauses)
        #expect(count == 1)
        pauses.decided(a)
        var quiet = 0
        while pauses.startInterval() {
            _ = pauses.elapsed()
            quiet += 1
        }
        #expect(quiet > 2)
        for _ in 0..<DecisionPauses.atOnce - DecisionPauses.perInterval {
            #expect(pauses.turn(of: a) == .now)
            pauses.decided(a)
        }
    }

    @Test func onlySoManyArePaused() {
        var pauses = DecisionPauses(limit: 2)
        for id in ["a", "b", "c"].map(doc) {
            for _ in 0..<DecisionPauses.atOnce { pauses.decided(id) }
            let turn = pauses.turn(of: id)
            #expect(turn == (id == doc("c") ? .now : .after(seconds: 15)))
        }
        #expect(pauses.paused == 2)
    }

    /// A one-shot ends with its decisions.
    @Test(arguments: [true, false]) func aPullDecidesAfterThePause(_ continuous: Bool) {
        var pull = PullRun(continuous: continuous)
        for number in 1...DecisionPauses.atOnce + 1 {
            pull.offer(row(number, "a", "\(number)-b"))
            pull.arrive(received(number, "a", "\(number)-b"))
            pull.on(.checked(pull.batch, [.checked(checked(number, "a", "\(number)-b"))]))
            let outcome = InsertOutcome.insertedConflict(local: rev("\(number)-a"), remote: rev("\(number)-b"), sequence: 1)
            let words = pull.on(.stored(pull.batch, [.stored(outcome)]))
            guard number <= DecisionPauses.atOnce || !continuous else {
                #expect(words.contains("pause a 15") && words.contains("pause timer 15") == false && !words.contains("decide a"), "\(words)")
                break
            }
            #expect(words.contains("decide a"))
            pull.on(.decided([ConflictDecider.Outcome(id: a, failure: nil, isDecided: true)]))
        }
        #expect(pull.machine.pauses.paused == (continuous ? 1 : 0))
        guard continuous else { return }
        // Another revision of the peer's is no reason to decide before that.
        pull.offer(row(99, "a", "99-b"))
        pull.arrive(received(99, "a", "99-b"))
        pull.on(.checked(pull.batch, [.checked(checked(99, "a", "99-b"))]))
        let more = pull.on(.stored(pull.batch, [.stored(.insertedConflict(local: rev("65-a"), remote: rev("99-b"), sequence: 2))]))
        #expect(!more.contains { $0.hasPrefix("decide") || $0.hasPrefix("pause") }, "\(more)")
        let words = pull.on(.pausesElapsed)
        #expect(words.contains("decide a") && pull.machine.pauses.paused == 0)
    }
}
