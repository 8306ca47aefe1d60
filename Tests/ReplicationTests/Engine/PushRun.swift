import DocumentStore
import Documents
import Interfaces

@testable import Replication

/// A push machine and the actions that it asks for, in words that a test can compare.
struct PushRun {
    var machine: PushMachine
    private(set) var last: [PushAction] = []

    init(
        _ style: PushStyle = .propose, continuous: Bool = true, filter: Bool = false, pulls: Bool = false, from: SequenceNumber = 0,
        _ change: (inout ReplicationLimits) -> Void = { _ in }
    ) {
        var limits = ReplicationLimits()
        change(&limits)
        machine = PushMachine(
            PushSettings(
                collection: .default, style: style, isContinuous: continuous, hasFilter: filter, pulls: pulls, limits: limits),
            from: FeedPosition(from))
    }

    /// Hands the machine an event and returns what it asks for.
    @discardableResult
    mutating func on(_ event: PushEvent) -> [String] {
        last = []
        machine.handle(event, &last)
        return last.map(\.words)
    }

    /// Gets past the first step of a push that proposes, which goes through what the filter kept back.
    mutating func start() {
        on(.storeChanged(newest: 0))
        if machine.settings.style == .propose { on(.keptBackRead(KeptBackPage(isAny: false))) }
    }

    /// The list that was offered last.
    var list: ChangeListID? {
        for case .offer(let list, _) in last.reversed() { return list }
        return nil
    }

    /// The acknowledgements that are to be noted.
    var batch: AcknowledgedVersions.Batch? {
        for case .note(let batch) in last.reversed() { return batch }
        return nil
    }

    var counts: ReplicationCounts { machine.ledger.counts }

    /// Whether nobody is working on anything, and nothing is counted that is not there.
    var isClean: Bool {
        let ledger = machine.ledger
        return ledger.active == 0 && ledger.inFlight == 0 && ledger.inFlightBytes == 0 && ledger.bytesAtHand == 0
    }
}

extension PushAction {
    var words: String {
        switch self {
        case .read(let position, _, _): "read \(position.sequence)"
        case .readAgain(let due): "again \(due.map(\.0.text).joined(separator: " "))"
        case .readKeptBack(let after): "kept back\(after.map { " \($0)" } ?? "")"
        case .judge(let documents): "judge \(documents.names)"
        case .exclude(let kept): "exclude \(kept.map(\.document).names)"
        case .unlistSettled(let ids): "unlist settled \(ids.map(\.text).joined(separator: " "))"
        case .unlist(let ids): "unlist \(ids.map(\.text).joined(separator: " "))"
        case .offer(_, let documents): "offer \(documents.names)"
        case .compare(let questions): "compare \(questions.map { "\($0.0.id) \($0.0.version) \($0.1)" }.joined(separator: " "))"
        case .move(let document, let tombstone): "move \([document].names) below \(tombstone)"
        case .withdraw(let document): "withdraw \([document].names)"
        case .send(let document): "send \([document].names)"
        case .announceCaughtUp: "caught up"
        case .note(let batch): "note \(batch.marks.map { "\($0.id)@\($0.version)" }.joined(separator: " "))"
        case .notifyPull(let id, let version): "tell pull \(id)@\(version)"
        case .applyRemovals(let removals): "take away \(removals.map(\.id.text).joined(separator: " "))"
        case .watchRemovals(let seconds): "watch removals \(seconds)"
        case .startRetryTimer(let seconds): "timer \(seconds)"
        case .startRefusedTimer(let attempts, let seconds): "refused timer \(attempts) \(seconds)"
        case .awaitTime(let id, let time): "await \(id) \(time)"
        case .fail(let error): "fail \(error.code)"
        case .report(let event): "report \(event.id) \(event.error.map { "\($0.code)" } ?? "ok")"
        }
    }
}

extension [OutgoingDocument] {
    var names: String { map { "\($0.id)@\($0.version)" }.joined(separator: " ") }
}

func outgoing(_ id: String, _ sequence: SequenceNumber, _ version: String = "1-a", peer: String? = nil) -> OutgoingDocument {
    OutgoingDocument(
        sequence: sequence, id: doc(id), version: rev(version), body: Array("{\"n\":\(sequence)}".utf8), peerVersion: peer.map(rev))
}

/// A page that ends at its last document.
func page(_ documents: OutgoingDocument..., isEnd: Bool = false, newest: SequenceNumber? = nil, next: SequenceNumber? = nil) -> FeedPage {
    let last = next ?? documents.last?.sequence ?? 0
    return FeedPage(documents: documents, next: FeedPosition(last), isEnd: isEnd, newest: newest ?? last)
}

/// A page that says that the feed has nothing after this sequence.
func end(_ sequence: SequenceNumber) -> FeedPage { FeedPage(next: FeedPosition(sequence), isEnd: true, newest: sequence) }

let failing = PolicyFailure(plugin: "f.lua", version: "1", kind: "plugin_error", message: "no")

/// An error from the peer.
func http(_ code: Int) -> ReplicationError { ReplicationError(domain: .http, code: code, message: "the peer says \(code)") }
