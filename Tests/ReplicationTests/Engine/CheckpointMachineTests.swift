import Interfaces
import Testing

@testable import Replication

/// A checkpoint is saved at the peer before it is saved here, and claims only what has been noted.
@Suite struct CheckpointMachineTests {
    private struct Run {
        var machine: CheckpointMachine
        var current = CheckpointBody()

        init(isRestartedByConflicts: Bool = false) {
            machine = CheckpointMachine(id: "cp", saved: CheckpointBody(), token: "", isRestartedByConflicts: isRestartedByConflicts)
        }

        @discardableResult
        mutating func on(_ event: CheckpointMachine.Event) -> [CheckpointMachine.Action] {
            var actions: [CheckpointMachine.Action] = []
            machine.handle(event, current, &actions)
            return actions
        }

        var isSaved: Bool { machine.isSaved(current) }
    }

    private func body(_ local: UInt64) -> CheckpointBody { CheckpointBody(local: local) }

    /// A save that has begun: what it claims still has to be noted.
    private func begun(isRestartedByConflicts: Bool = false) -> Run {
        var run = Run(isRestartedByConflicts: isRestartedByConflicts)
        run.current = body(3)
        run.on(.saveNow)
        return run
    }

    @Test func progressIsSavedAfterSomeTimeAtThePeerFirst() {
        var run = Run()
        #expect(run.on(.progressed) == [] && run.isSaved && run.machine.isIdle)
        run.current = body(3)
        #expect(run.on(.progressed) == [.startTimer(intervals: 1)])
        #expect(!run.isSaved && !run.machine.isIdle)
        run.current = body(5)
        #expect(run.on(.progressed) == [])
        #expect(run.on(.timerElapsed) == [.note])
        #expect(run.on(.noted) == [.saveAtPeer(body(5), token: "")])
        #expect(run.machine.saved == body(0))
        #expect(run.on(.peerSaved(token: "t1")) == [.saveHere(body(5))])
        #expect(!run.isSaved)
        #expect(run.on(.savedHere) == [])
        #expect(run.isSaved && run.machine.saved == body(5) && run.machine.isIdle)
    }

    /// A peer that is asked by requests may have been created anew in between.
    @Test(arguments: ["", "other", "t1"]) func whatAPeerHasIsCheckedWhileNothingHappens(_ there: String) {
        var run = begun(isRestartedByConflicts: true)
        #expect(run.on(.checkPeer) == [])
        run.on(.noted)
        run.on(.peerSaved(token: "t1"))
        run.on(.savedHere)
        #expect(run.on(.checkPeer) == [.fetchToken] && run.isSaved && !run.machine.isIdle)
        run.current = body(5)
        #expect(run.on(.progressed) == [])
        let actions = run.on(.tokenFetched(there))
        if there == "t1" {
            #expect(actions == [.startTimer(intervals: 1)])
            #expect(run.on(.timerElapsed) == [.note])
        } else {
            guard case .fail(let error)? = actions.first else { return #expect(Bool(false), "\(actions)") }
            #expect(error.isBusy && actions.count == 1)
        }
    }

    @Test func whereTheConnectionWouldHaveEndedNothingIsChecked() {
        var run = begun()
        run.on(.noted)
        run.on(.peerSaved(token: "t1"))
        run.on(.savedHere)
        #expect(run.on(.checkPeer) == [])
    }

    @Test func withoutRoomItIsSavedAfterLongerAndLongerDelays() {
        var run = begun()
        for (attempt, intervals) in [2, 4, 8, 16, 32, 64, 64].enumerated() {
            let token = attempt == 0 ? "" : "t"
            #expect(run.on(.noted) == [.saveAtPeer(body(3), token: token)])
            #expect(run.on(.peerSaved(token: "t")) == [.saveHere(body(3))])
            #expect(run.on(.notSavedHere) == [.startTimer(intervals: intervals)])
            // There is nothing to do until then.
            #expect(run.isSaved && run.machine.saved == body(0))
            #expect(run.on(.saveNow) == [] && run.on(.progressed) == [])
            #expect(run.on(.timerElapsed) == [.note])
        }
        run.on(.noted)
        run.on(.peerSaved(token: "t"))
        #expect(run.on(.savedHere) == [])
        #expect(run.isSaved && run.machine.saved == body(3) && run.machine.isIdle)
    }

    @Test func progressMadeMeanwhileIsSavedNextWithTheNewToken() {
        var run = begun()
        run.current = body(9)
        #expect(run.on(.noted) == [.saveAtPeer(body(3), token: "")])
        run.on(.peerSaved(token: "t1"))
        #expect(run.on(.savedHere) == [.startTimer(intervals: 1)])
        run.on(.timerElapsed)
        #expect(run.on(.noted) == [.saveAtPeer(body(9), token: "t1")])
    }

    @Test func aSaveAheadOfTheTimerDoesNotLoseTheTimer() {
        var run = Run()
        run.current = body(1)
        run.on(.progressed)
        // The timer is still running.
        #expect(run.on(.saveNow) == [.note])
        run.on(.noted)
        run.on(.peerSaved(token: "t"))
        run.current = body(2)
        #expect(run.on(.savedHere) == [])
        #expect(run.on(.timerElapsed) == [.note])
    }

    @Test func aTimerDuringASaveHasNoEffect() {
        var run = begun()
        #expect(run.on(.timerElapsed) == [] && run.on(.saveNow) == [])
        #expect(run.on(.noted) == [.saveAtPeer(body(3), token: "")])
    }

    @Test func aCopyThatChangedIsFetchedAndSavedAgainThreeTimesAtMost() {
        var run = begun()
        run.on(.noted)
        for token in ["a", "b"] {
            #expect(run.on(.peerConflict) == [.fetchToken])
            #expect(run.on(.tokenFetched(token)) == [.saveAtPeer(body(3), token: token)])
        }
        guard case .warn? = run.on(.peerConflict).first else { return #expect(Bool(false), "no warning") }
        // What it would have saved is done again next time, and nobody waits for it.
        #expect(run.isSaved && run.on(.saveNow) == [] && run.machine.saved == body(0))
    }

    /// After that, only a comparison of both copies tells how far both sides are.
    @Test func withAPeerThatLostItsCopyTheComparisonStartsAgain() {
        func isRestarted(_ actions: [CheckpointMachine.Action]) -> Bool {
            if case .fail(let error)? = actions.first { error.isTransient } else { false }
        }
        var run = begun()
        run.on(.noted)
        run.on(.peerSaved(token: "0-1"))
        run.current = body(7)
        run.on(.savedHere)
        run.on(.timerElapsed)
        run.on(.noted)
        #expect(run.on(.peerConflict) == [.fetchToken])
        #expect(isRestarted(run.on(.tokenFetched(""))) && run.machine.saved == body(3))

        // For a peer without a connection that would end when the peer restarts, a different copy means the same.
        var other = begun(isRestartedByConflicts: true)
        other.on(.noted)
        #expect(other.on(.peerConflict) == [.fetchToken])
        #expect(isRestarted(other.on(.tokenFetched("0-1"))) && other.machine.saved == body(0) && !other.machine.hasSaved)
    }

    /// There is no sign that the peer has changed.
    @Test func aConflictWithTheSameCopyIsTriedThreeTimesAtMost() {
        var run = begun(isRestartedByConflicts: true)
        run.on(.noted)
        for _ in 0..<2 {
            #expect(run.on(.peerConflict) == [.fetchToken])
            #expect(run.on(.tokenFetched("")) == [.saveAtPeer(body(3), token: "")])
        }
        guard case .warn? = run.on(.peerConflict).first else { return #expect(Bool(false), "no warning") }
        #expect(run.isSaved && run.machine.saved == body(0))
    }

    @Test(arguments: [403, 405]) func aPeerThatKeepsNoCheckpointsIsNotAskedAgainAndOursIsKeptOnlyHere(_ code: Int) {
        var run = begun()
        run.on(.noted)
        let error = ReplicationError(domain: .http, code: code, message: "no")
        let actions = run.on(.peerRefused(error))
        #expect(actions.last == .saveHereOnly(body(3), token: "") && run.machine.refusal == error)
        run.current = body(7)
        run.on(.savedHere)
        #expect(run.machine.saved == body(3))
        run.on(.timerElapsed)
        #expect(run.on(.noted) == [.saveHereOnly(body(7), token: "")])
    }

    @Test(arguments: [(503, true), (400, false)]) func aRefusal(_ code: Int, _ ends: Bool) {
        var run = begun()
        run.on(.noted)
        let error = ReplicationError(domain: .http, code: code, message: "no")
        let actions = run.on(.peerRefused(error))
        #expect(actions.count == 1 && (actions == [.fail(error)]) == ends)
        #expect(run.isSaved && run.machine.saved == body(0))
    }

    @Test func answersThatNobodyWaitsForChangeNothing() {
        var run = Run()
        for event in [.noted, .peerSaved(token: "x"), .peerConflict, .tokenFetched("x"), .savedHere] as [CheckpointMachine.Event] {
            #expect(run.on(event) == [])
        }
        #expect(run.machine.isIdle && run.isSaved)
    }

    @Test func whatIsSavedIsNotSavedAgain() {
        var run = begun()
        run.on(.noted)
        run.on(.peerSaved(token: "t"))
        run.on(.savedHere)
        #expect(run.on(.saveNow) == [] && run.on(.progressed) == [] && run.machine.isIdle)
    }
}
