import DocumentStore
import Documents
import Interfaces
import NIOCore

@testable import Replication

/// A pull machine and the actions that it asks for, in words that a test can compare.
struct PullRun {
    var machine: PullMachine
    private(set) var last: [PullAction] = []

    init(
        passive: Bool = false, filter: Bool = false, sync: Bool = false, resolver: Bool = true, refusesPush: Bool = false,
        documentIDs: Set<DocumentID>? = nil, refusesUnsolicited: Bool = false, largestBody: Int = StoreLimits.maxBodyBytes,
        heldBefore: Set<DocumentID> = [], continuous: Bool = false, _ change: (inout ReplicationLimits) -> Void = { _ in }
    ) {
        var limits = ReplicationLimits()
        change(&limits)
        var settings = PullSettings(
            collection: .default, role: passive ? .passive(refusesPush: refusesPush) : .active,
            hasFilter: filter, hasSyncFunction: sync, hasResolver: resolver, keepsLists: !passive, documentIDs: documentIDs,
            limits: limits)
        (settings.refusesUnsolicited, settings.heldBefore) = (refusesUnsolicited, heldBefore)
        (settings.largestBody, settings.isContinuous) = (largestBody, continuous)
        machine = PullMachine(settings)
        if !passive { machine.subscribe(since: nil) }
    }

    /// Revisions of one batch, all checked.
    static func batch(_ revisions: [CheckedRevision], filter: Bool = false) -> PullRun {
        var pull = PullRun(filter: filter)
        for (index, revision) in revisions.enumerated() {
            pull.offer(row(index + 1, revision.id.text, revision.revision.text))
        }
        // While more are expected, revisions wait so that they can be handled together.
        for (index, revision) in revisions.enumerated().dropLast() {
            pull.on(.arrived(received(index + 1, revision.id.text, revision.revision.text)))
        }
        if let revision = revisions.last { pull.on(.arrived(received(revisions.count, revision.id.text, revision.revision.text))) }
        pull.on(.checked(pull.batch, revisions.map { .checked($0) }))
        return pull
    }

    /// Notes of released blobs: of how many refused revisions, and of how many others.
    private(set) var released: [String] = []

    @discardableResult
    mutating func on(_ event: PullEvent) -> [String] {
        last = []
        machine.handle(event, &last)
        for case .releaseBlobs(let refused, let staying) in last { released.append("\(refused.count) refused, \(staying.count) staying") }
        last.removeAll { if case .releaseBlobs = $0 { true } else { false } }
        return last.map(\.words)
    }

    @discardableResult
    mutating func on(_ event: InsertionEvent) -> [String] { on(.insertion(event)) }

    /// The peer offers rows, and the store needs all of them.
    @discardableResult
    mutating func offer(_ rows: OfferedRow...) -> [String] {
        on(.listArrived(offeredList))
        on(.listRead(.success(.offered(rows.map { .row($0) }))))
        return on(.missing(rows.filter { !$0.isAccessRemoved }.map { _ in .need(ancestors: []) }))
    }

    /// Revisions arrive, and are checked.
    @discardableResult
    mutating func arrive(_ revisions: ReceivedRevision...) -> [String] {
        var words: [String] = []
        for revision in revisions { words += on(.arrived(revision)) }
        return words
    }

    var batch: BatchID {
        for action in last.reversed() {
            switch action {
            case .check(let batch, _), .judge(let batch, _), .keep(let batch, _), .assign(let batch, _), .store(let batch, _, _, _):
                return batch
            default: break
            }
        }
        return BatchID(number: -1)
    }

    /// The revisions that are with the filter or about to be stored.
    var atHand: [CheckedRevision] {
        for action in last.reversed() {
            switch action {
            case .judge(_, let revisions), .assign(_, let revisions): return revisions
            case .store(_, let revisions, _, _): return revisions.map(\.revision)
            case .keep(_, let held): return held.map(\.revision)
            default: break
            }
        }
        return []
    }

    var fetch: FetchID {
        for case .fetchBlobs(let fetch, _) in last { return fetch }
        for case .fetchAttachments(let fetch, _) in last { return fetch }
        return FetchID(number: -1)
    }

    var counts: ReplicationCounts { machine.counts }
    var through: String? { machine.tracker?.completedThrough?.json }
}

let offeredList = IncomingList(handle: AnswerHandle(number: 1), content: .text(ByteBuffer(string: "[[]]")) { _ in .success(.offered([])) })

extension PullAction {
    var words: String {
        switch self {
        case .readList: "read list"
        case .findMissing(let offers, _): "missing \(offers.map { "\($0.id)" }.joined(separator: " "))"
        case .checkProposals(let proposals): "proposals \(proposals.map(\.id.text).joined(separator: " "))"
        case .answerChanges(_, let answers): "answer \(answers.map { if case .wanted = $0 { "+" } else { "-" } }.joined())"
        case .answerProposals(_, let answers, _): "answer \(answers)"
        case .refuseList(_, let error): "refuse \(error.code)"
        case .check(_, let revisions): "check \(revisions.map { "\($0.id)@\($0.revision)" }.joined(separator: " "))"
        case .fetchBlobs(_, let revision): "fetch \([revision].names)"
        case .fetchAttachments(_, let revision): "bring \([revision].names)"
        case .releaseBlobs: "release blobs"
        case .judge(_, let revisions): "judge \(revisions.names)"
        case .keep(_, let held): "keep \(held.map(\.revision).names)"
        case .assign(_, let revisions): "assign \(revisions.names)"
        case .store(_, let revisions, _, _): "store \(revisions.map(\.revision).names)"
        case .applyRemovals(let removals): "take away \(removals.map(\.id.text).joined(separator: " "))"
        case .settle(let handle, .stored): "settle \(handle.number)"
        case .settle(let handle, .alreadyHere): "settle \(handle.number) here"
        case .settle(let handle, .kept(let reason)): "settle \(handle.number) \(reason)"
        case .settle(let handle, .refused(let error)): "settle \(handle.number) \(error.code)"
        case .decide(let ids): "decide \(ids.map(\.text).joined(separator: " "))"
        case .readHeld(let after): "held\(after.map { " \($0)" } ?? "")"
        case .readConflicts(let after): "conflicts\(after.map { " \($0)" } ?? "")"
        case .noteNotTaken(let refused): "list \(refused.map { "\($0.id)" }.joined(separator: " "))"
        case .forgetNotTaken(let ids): "forget \(ids.map(\.text).joined(separator: " "))"
        case .notifyPush(let revisions, _, _, _): "tell push \(revisions.map { "\($0.0)@\($0.1)" }.joined(separator: " "))"
        case .notifyPushOfAlreadyHere(let revisions): "tell push of known \(revisions.map { "\($0.0)@\($0.1)" }.joined(separator: " "))"
        case .notifyPushOfRefusal(let revisions): "tell push of refusal \(revisions.map { "\($0.0)@\($0.1)" }.joined(separator: " "))"
        case .notifyPushOfDecision: "tell push"
        case .startFlushTimer: "flush timer"
        case .pauseDecision(let id, let seconds): "pause \(id) \(seconds)"
        case .startPauseTimer(let seconds): "pause timer \(seconds)"
        case .report(let event): "report \(event.id) \(event.error.map { "\($0.code)" } ?? (event.isAccessRemoved ? "removed" : "ok"))"
        case .reconnectLater: "come back"
        case .checkForSpace(let bytes): "look for room for \(bytes)"
        case .reconnectNow: "come back now"
        case .warn: "warn"
        case .fail: "fail"
        }
    }
}

extension [CheckedRevision] {
    var names: String { map { "\($0.id)@\($0.revision)" }.joined(separator: " ") }
}

func row(_ sequence: Int, _ id: String, _ version: String = "1-a", isDeletion: Bool = false, isAccessRemoved: Bool = false) -> OfferedRow {
    OfferedRow(
        sequence: RemoteSequence(json: "\(sequence)"), id: doc(id), revision: rev(version), isDeletion: isDeletion,
        isAccessRemoved: isAccessRemoved, bodySize: 10)
}

func received(_ sequence: Int, _ id: String, _ version: String = "1-a") -> ReceivedRevision {
    ReceivedRevision(
        replyTo: AnswerHandle(number: UInt64(sequence)), id: doc(id), revision: rev(version), history: [], isDeleted: false,
        sequence: RemoteSequence(json: "\(sequence)"), body: ByteBuffer(string: "{}"))
}

func checked(_ sequence: Int, _ id: String, _ version: String = "1-a", blobs: [BlobReference] = [], isRemoval: Bool = false) -> CheckedRevision {
    CheckedRevision(
        replyTo: AnswerHandle(number: UInt64(sequence)), id: doc(id), revision: rev(version), history: [], isDeleted: false,
        sequence: RemoteSequence(json: "\(sequence)"), body: Array("{}".utf8), blobs: blobs, isRemoval: isRemoval)
}
