import Interfaces

/// Saves one collection's checkpoint: at the peer first, and locally only after that succeeded, so that the local one is never ahead. Before that,
/// everything the checkpoint claims is recorded in the store. A peer that grants us only read access keeps no checkpoint of ours: then the local copy
/// alone has to suffice.
///
/// A save goes through the states `noting`, `savingAtPeer` and `savingHere`. What is saved is the progress at its beginning; what is made meanwhile
/// is left for the next save.
struct CheckpointMachine {
    enum Event: Sendable {
        /// Push or pull has got further.
        case progressed
        case timerElapsed
        /// Everything is idle: unsaved progress is saved now.
        case saveNow
        /// Nothing has happened for some time: the peer may have lost its copy without any sign of it.
        case checkPeer
        /// Everything the checkpoint claims is durably recorded.
        case noted
        case peerSaved(token: String)
        /// The peer says that its copy is not the one that was to be replaced.
        case peerConflict
        case peerRefused(ReplicationError)
        /// The peer cannot confirm that it keeps what the checkpoint claims.
        case peerCannotConfirm(ReplicationError)
        /// Answers ``Action/fetchToken``.
        case tokenFetched(String)
        case savedHere
        /// There is no space for it here at the moment.
        case notSavedHere
    }

    enum Action: Sendable, Equatable {
        /// It fires after this many intervals between saves.
        case startTimer(intervals: Int)
        /// Records what the checkpoint is about to claim.
        case note
        case saveAtPeer(CheckpointBody, token: String)
        case fetchToken
        case saveHere(CheckpointBody)
        /// The peer keeps no checkpoint; the local copy says so.
        case saveHereOnly(CheckpointBody, token: String)
        case warn(String)
        /// The peer refuses for a reason that affects the whole connection.
        case fail(ReplicationError)
    }

    private enum State: Equatable {
        case idle
        /// A save follows when the timer fires.
        case waiting
        /// The store records what the checkpoint claims.
        case noting(CheckpointBody)
        case savingAtPeer(CheckpointBody, attempt: Int)
        /// After a conflict: the peer is asked for the token of its present copy.
        case fetchingToken(CheckpointBody, attempt: Int)
        case savingHere(CheckpointBody)
        /// The peer is asked for the token of its copy, which should be the one that it got last.
        case checkingPeer
        /// The disk here is full: nothing is saved until the timer fires.
        case awaitingSpace
        /// The peer does not save; the progress of this connection will be repeated next time.
        case broken
    }

    let id: String
    /// The revision token of the peer's copy, empty if it has none.
    private var token: String
    /// The checkpoint saved by both the peer and us.
    private(set) var saved: CheckpointBody
    /// Whether anything was saved on this connection.
    private(set) var hasSaved = false
    private var state = State.idle
    /// Not part of the state, since a timer may run out in any: a save that was requested does not wait for it, and does not stop it.
    private var timerRuns = false
    /// How many intervals the timer took after the last save for which there was no space; 1 if there was none.
    private var intervals = 1
    /// Why the peer keeps no checkpoint of ours; it is not asked again on this connection.
    private(set) var refusal: ReplicationError?

    /// Set for a peer that can be restored without the connection ending: only its copy of the checkpoint reveals that it is not in its former state.
    private let isRestartedByConflicts: Bool

    init(id: String, saved: CheckpointBody, token: String, isRestartedByConflicts: Bool = false) {
        self.id = id
        self.saved = saved
        self.token = token
        self.isRestartedByConflicts = isRestartedByConflicts
    }

    /// No save is in progress or scheduled.
    var isIdle: Bool { state == .idle }

    /// Whether there is nothing to save, or nothing can be saved at the moment: then nobody has to wait for it.
    func isSaved(_ current: CheckpointBody) -> Bool {
        switch state {
        case .broken, .awaitingSpace: true
        case .idle, .waiting, .checkingPeer: current == saved
        default: false
        }
    }

    /// - Parameter current: how far push and pull are.
    mutating func handle(_ event: Event, _ current: CheckpointBody, _ actions: inout [Action]) {
        switch (event, state) {
        case (.progressed, .idle) where !timerRuns && current != saved:
            timerRuns = true
            state = .waiting
            actions.append(.startTimer(intervals: 1))
        case (.timerElapsed, _):
            timerRuns = false
            if state == .awaitingSpace { state = .idle }
            begin(current, &actions)
        case (.saveNow, _): begin(current, &actions)
        case (.checkPeer, .idle) where isRestartedByConflicts && !token.isEmpty && refusal == nil:
            state = .checkingPeer
            actions.append(.fetchToken)
        case (.tokenFetched(let new), .checkingPeer):
            guard new == token else { return restart(&actions) }
            state = .idle
            // Progress made meanwhile went unnoticed.
            handle(.progressed, current, &actions)
        case (.peerRefused, .checkingPeer): state = .idle
        case (.noted, .noting(let body)) where refusal != nil: saveHereOnly(body, &actions)
        case (.noted, .noting(let body)):
            state = .savingAtPeer(body, attempt: 1)
            actions.append(.saveAtPeer(body, token: token))
        case (.peerSaved(let new), .savingAtPeer(let body, _)):
            token = new
            state = .savingHere(body)
            actions.append(.saveHere(body))
        case (.peerConflict, .savingAtPeer(let body, let attempt)) where attempt < EngineBounds.checkpointAttempts:
            state = .fetchingToken(body, attempt: attempt)
            actions.append(.fetchToken)
        case (.peerConflict, .savingAtPeer):
            state = .broken
            actions.append(
                .warn("the peer did not save the checkpoint: each time it said that its copy is not the one that was to be replaced"))
        // The copy was replaced or, if there is no token, lost. An unchanged copy is no reason to restart: why the peer reports a conflict is up to the
        // peer.
        case (.tokenFetched(let new), .fetchingToken) where new != token && (isRestartedByConflicts || new.isEmpty): restart(&actions)
        case (.tokenFetched(let new), .fetchingToken(let body, let attempt)):
            token = new
            state = .savingAtPeer(body, attempt: attempt + 1)
            actions.append(.saveAtPeer(body, token: token))
        case (.peerRefused(let error), .savingAtPeer(let body, _)) where error.forbidsWriting,
            (.peerRefused(let error), .fetchingToken(let body, _)) where error.forbidsWriting:
            refusal = error
            actions.append(.warn("the peer keeps no checkpoint of ours, so it is kept here only: \(error)"))
            saveHereOnly(body, &actions)
        case (.peerRefused(let error), .savingAtPeer), (.peerRefused(let error), .fetchingToken):
            state = .broken
            if error.isBusy {
                actions.append(.fail(error))
            } else {
                actions.append(.warn("the peer did not save the checkpoint: \(error)"))
            }
        case (.peerCannotConfirm(let error), .savingAtPeer):
            state = .broken
            actions.append(.fail(error))
        case (.savedHere, .savingHere(let body)):
            (saved, hasSaved) = (body, true)
            intervals = 1
            state = .idle
            // Progress made during the save went unnoticed.
            handle(.progressed, current, &actions)
        // A checkpoint that only the peer has is not used: the next connection compares both copies.
        case (.notSavedHere, .savingHere):
            state = .awaitingSpace
            intervals = min(2 * intervals, EngineBounds.checkpointIntervalsWithoutSpace)
            if !timerRuns { actions.append(.startTimer(intervals: intervals)) }
            timerRuns = true
        default: break
        }
    }

    /// The copy is not the one that was saved last: the peer may have lost data, and only a comparison of both copies shows how far both sides are.
    private mutating func restart(_ actions: inout [Action]) {
        state = .broken
        actions.append(
            .fail(
                .busy("the peer does not have the checkpoint that was last saved there, so it may have been restored: both sides are compared again")))
    }

    private mutating func saveHereOnly(_ body: CheckpointBody, _ actions: inout [Action]) {
        state = .savingHere(body)
        actions.append(.saveHereOnly(body, token: token))
    }

    /// Begins a save, unless one is in progress, nothing has changed, or nothing can be saved.
    private mutating func begin(_ current: CheckpointBody, _ actions: inout [Action]) {
        switch state {
        case .idle, .waiting:
            guard current != saved else { return state = .idle }
            state = .noting(current)
            actions.append(.note)
        default: break
        }
    }
}
