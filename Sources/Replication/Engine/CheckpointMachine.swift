import Interfaces

/// Saves one collection's checkpoint: at the peer first, and here only after its success, so that ours is never ahead. Before
/// that, what the checkpoint claims is noted in the store. A peer that lets us only read keeps none: then ours has to do.
struct CheckpointMachine {
    enum Event: Sendable {
        /// Something advanced.
        case progressed
        case timerElapsed
        /// Everything is quiet: what is not saved is saved now.
        case saveNow
        /// What the checkpoint claims is durably noted.
        case noted
        case peerSaved(token: String)
        /// The peer's copy was changed meanwhile.
        case peerConflict
        case peerRefused(ReplicationError)
        /// The peer cannot say that it keeps what the checkpoint claims.
        case peerIsUnsure(ReplicationError)
        /// Answers ``Action/fetchToken``.
        case tokenFetched(String)
        case savedHere
    }

    enum Action: Sendable, Equatable {
        case startTimer
        /// Notes what the checkpoint is about to claim.
        case note
        case saveAtPeer(CheckpointBody, token: String)
        case fetchToken
        case saveHere(CheckpointBody)
        /// The peer keeps none; the copy says so.
        case saveHereOnly(CheckpointBody, token: String)
        case warn(String)
        /// The peer refuses for a reason that concerns the whole connection.
        case fail(ReplicationError)
    }

    private enum State: Equatable {
        case idle
        /// A save follows when the timer has elapsed.
        case waiting
        case noting(CheckpointBody)
        case savingAtPeer(CheckpointBody, attempt: Int)
        case fetchingToken(CheckpointBody, attempt: Int)
        case savingHere(CheckpointBody)
        /// The peer does not save; what was done is done again next time.
        case broken
    }

    let id: String
    /// The peer's token for its copy, empty for none.
    private var token: String
    /// What the peer and we have saved.
    private(set) var saved: CheckpointBody
    /// Something was saved on this connection.
    private(set) var hasSaved = false
    private var state = State.idle
    private var timerRuns = false
    /// Why the peer keeps no checkpoint of ours; it is not asked again on this connection.
    private(set) var refusal: ReplicationError?

    /// Of a peer without a connection that ends when it does: only this says that it is not what it was.
    private let isRestartedByConflicts: Bool

    init(id: String, saved: CheckpointBody, token: String, isRestartedByConflicts: Bool = false) {
        self.id = id
        self.saved = saved
        self.token = token
        self.isRestartedByConflicts = isRestartedByConflicts
    }

    /// No save is under way or planned.
    var isIdle: Bool { state == .idle }

    /// Nothing is to be saved.
    func isSaved(_ current: CheckpointBody) -> Bool {
        switch state {
        case .broken: true
        case .idle, .waiting: current == saved
        default: false
        }
    }

    /// - Parameter current: how far push and pull have come now.
    mutating func handle(_ event: Event, _ current: CheckpointBody, _ actions: inout [Action]) {
        switch (event, state) {
        case (.progressed, .idle) where !timerRuns && current != saved:
            timerRuns = true
            state = .waiting
            actions.append(.startTimer)
        case (.timerElapsed, _):
            timerRuns = false
            begin(current, &actions)
        case (.saveNow, _): begin(current, &actions)
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
        // The same copy as before is no reason: what the peer says of a conflict is its own affair.
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
        case (.peerIsUnsure(let error), .savingAtPeer):
            state = .broken
            actions.append(.fail(error))
        case (.savedHere, .savingHere(let body)):
            (saved, hasSaved) = (body, true)
            state = .idle
            handle(.progressed, current, &actions)
        default: break
        }
    }

    /// Another copy than the last one that was saved: the peer may have lost what it had, and only both copies say how far both are.
    private mutating func restart(_ actions: inout [Action]) {
        state = .broken
        actions.append(
            .fail(
                .busy("the peer has not the checkpoint that was saved there last, it may have been restored: both sides are compared anew")))
    }

    private mutating func saveHereOnly(_ body: CheckpointBody, _ actions: inout [Action]) {
        state = .savingHere(body)
        actions.append(.saveHereOnly(body, token: token))
    }

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
