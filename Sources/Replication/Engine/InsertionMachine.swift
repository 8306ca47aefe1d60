import Documents
import DocumentStore
import Interfaces

/// An input concerning revisions on their way into the store.
enum InsertionEvent: Sendable {
    /// Answers ``PullAction/check(_:_:)``.
    case checked(BatchID, [CheckOutcome])
    /// Answers ``PullAction/fetchBlobs(_:_:)``; nil: all blobs are here.
    case blobsFetched(FetchID, ReplicationError?)
    /// Answers ``PullAction/fetchAttachments(_:_:)``: the body with our digests of the attachments. `bytes`: size of the largest attachment.
    case attachmentsFetched(FetchID, Result<[UInt8], ReplicationError>, bytes: Int = 0)
    /// Answers ``PullAction/judge(_:_:)``: one verdict for each.
    case judged(BatchID, [FilterVerdict], plugin: String, version: String)
    /// Answers ``PullAction/keep(_:_:)``: the revisions that were kept back are durably on the list.
    case kept(BatchID)
    /// Answers ``PullAction/assign(_:_:)``: one judgement for each.
    case assigned(BatchID, [SyncJudgement])
    /// Answers ``PullAction/store(_:_:_:settlesHeld:)``: one outcome for each revision, all of them durable.
    case stored(BatchID, [StoreOutcome])
    /// The store could not do anything that the batch needs.
    case failed(BatchID, any Error)
    case flushIsDue
}

/// Brings revisions into the store in batches: body check, filter, sync function, blobs, transaction. A revision that waits for its blobs leaves its
/// batch and delays nothing but later revisions of its document.
///
/// Policies are asked before blobs are fetched, so that a revision they refuse costs only its body. They also have the last word once the blobs are
/// here and before anything is stored. The first answer counts as the last word if the same version is in force and would be asked the same question,
/// so each revision is normally judged once. Otherwise the policy is asked again about the revision as it arrived. Anything a plugin reads besides
/// its arguments, such as the clock or other documents, is as of the question that counts, which may be the first.
struct InsertionMachine {
    let settings: PullSettings
    private var arrivals = ArrivalQueue()
    var batches = Batches()
    private var flushIsScheduled = false
    /// Revisions from this peer may be on the list of held ones, so those that are stored after all have to be taken off it.
    var mayHaveHeld = false
    /// The peer pulls from us on this connection.
    var peerPulls = false

    init(_ settings: PullSettings) { self.settings = settings }

    var isEmpty: Bool { arrivals.isEmpty && batches.isEmpty }
    var count: Int { arrivals.count + batches.count }
    /// Memory of everything in the machine, in bytes.
    var bytes: Int { arrivals.bytes + batches.bytes }
    /// The part of ``bytes`` that policies and the store are working on.
    var bytesElsewhere: Int { batches.bytesElsewhere }

    /// Whether any revision of the document is here.
    func contains(_ id: DocumentID) -> Bool { batches.contains(id) || arrivals.contains(id) }

    /// Those of the documents of which a revision is here; nil if too many revisions are waiting to search through.
    func underWay(among ids: Set<DocumentID>) -> Set<DocumentID>? {
        guard arrivals.count <= settings.limits.searchedArrivals else { return nil }
        return arrivals.ids(among: ids).union(ids.filter { batches.contains($0) })
    }

    /// A peer that pulls decides its conflicts itself; if both sides decided, they might never agree. For a peer that only pushes, there is no
    /// resolver but ours.
    var decidesPushes: Bool { settings.isPassive && settings.hasResolver && !settings.hasSyncFunction && !peerPulls }

    /// Whether revisions that a filter kept back are on their way to the list.
    var isKeepingBack: Bool { batches.areKeepingBack }

    /// Another version of the filter is in force: revisions that the old one is judging are judged again.
    mutating func filterChanged() { batches.filterChanged() }

    mutating func add(_ revision: ReceivedRevision) { arrivals.append(revision) }

    /// Adds revisions from the kept-back list.
    /// - Returns: those that were accepted for processing.
    mutating func add(again revisions: [CheckedRevision], _ actions: inout [PullAction]) -> [CheckedRevision] {
        // If the document is under way, something newer of it is already here.
        let free = revisions.filter { !contains($0.id) }
        guard !free.isEmpty else { return [] }
        let batch = batches.begin(checked: free)
        var fitting: [CheckedRevision] = []
        for revision in free {
            if let error = excess(of: revision) { keep(HeldRevision(revision, size: error), &actions) } else { fitting.append(revision) }
        }
        judge(batch, fitting, &actions)
        return free
    }

    mutating func handle(_ event: InsertionEvent, _ ended: inout [Insertion], _ actions: inout [PullAction]) {
        switch event {
        case .checked(let batch, let outcomes): acceptChecked(outcomes, batch, &ended, &actions)
        case .blobsFetched(let fetch, let error): acceptBlobs(fetch, error, &ended, &actions)
        case .attachmentsFetched(let fetch, .failure(let error), let bytes): acceptBlobs(fetch, error, missing: bytes, &ended, &actions)
        case .attachmentsFetched(let fetch, .success(let body), _): acceptAttachments(fetch, whole: body, &ended, &actions)
        case .judged(let batch, let verdicts, let plugin, let version): acceptVerdicts(verdicts, plugin, version, batch, &ended, &actions)
        case .kept(let batch): acceptKept(batch, &ended, &actions)
        case .assigned(let batch, let judgements): acceptJudgements(judgements, batch, &ended, &actions)
        case .stored(let batch, let outcomes): acceptStored(outcomes, batch, &ended, &actions)
        case .failed(let batch, let error): fail(batch, error, &ended)
        case .flushIsDue:
            flushIsScheduled = false
            begin(&actions)
        }
    }

    /// Begins a batch with revisions whose blobs are here by now, and one with those that arrived: at once if nothing more is expected, otherwise when
    /// enough has arrived or the time is up.
    mutating func advance(expectsMore: Bool, _ actions: inout [PullAction]) {
        // Read individually: copying all limits for each event costs more than the work done here.
        let running = settings.limits.insertionBatchesInFlight
        if batches.running < running, let (batch, revisions) = batches.beginReady() {
            judge(batch, revisions, &actions)
        }
        guard !arrivals.isEmpty, batches.running < running else { return }
        if arrivals.count >= settings.limits.insertionBatchRows || arrivals.bytes >= settings.limits.insertionBatchBytes / 4
            || !expectsMore && batches.running == 0
        {
            begin(&actions)
        } else if !flushIsScheduled, arrivals.hasAny(where: { !batches.contains($0) }) {
            // A revision that waits for another one of its document continues when that one ends, not on a timer.
            flushIsScheduled = true
            actions.append(.startFlushTimer)
        }
    }

    private mutating func begin(_ actions: inout [PullAction]) {
        let limits = settings.limits
        guard !arrivals.isEmpty, batches.running < limits.insertionBatchesInFlight else { return }
        // A sync function judges a revision together with the one it replaces. Of several revisions of a document in one batch, each would have to be
        // judged again whenever one before it had been stored.
        let revisions = arrivals.take(
            rows: limits.insertionBatch, bytes: limits.insertionBatchBytes, onePerDocument: settings.hasSyncFunction
        ) { !batches.contains($0) }
        if !revisions.isEmpty { actions.append(.check(batches.begin(revisions), revisions)) }
    }

    // MARK: - From step to step

    private mutating func acceptChecked(
        _ outcomes: [CheckOutcome], _ batch: BatchID, _ ended: inout [Insertion], _ actions: inout [PullAction]
    ) {
        guard case .checking(let received)? = batches.step(batch) else { return }
        var checked: [CheckedRevision] = []
        checked.reserveCapacity(outcomes.count)
        for (outcome, original) in zip(outcomes, received) {
            switch outcome {
            case .checked(let revision) where revision.isRemoval && !settings.isPassive:
                batches.leave(original.id, original.bytes)
                ended.append(Insertion(revision, .isRemoval))
            case .checked(let revision):
                // Reserved keys may have been removed, and names of blobs added.
                batches.resize(by: revision.bytes - original.bytes)
                if let error = excess(of: revision) {
                    hold(HeldRevision(revision, size: error), error, &ended, &actions)
                } else if case .failed(let error)? = revision.attachments {
                    hold(HeldRevision(revision, blob: error), error, &ended, &actions)
                } else {
                    checked.append(revision)
                }
            case .refused(let revision, let error):
                batches.leave(original.id, original.bytes)
                ended.append(Insertion(revision, error.isTransient ? .postponed(error) : .refused(error)))
            }
        }
        judge(batch, checked, &actions)
    }

    /// Why the database does not accept the revision; nil unless it is too large.
    func excess(of revision: CheckedRevision) -> ReplicationError? {
        guard revision.body.count > settings.largestBody else { return nil }
        return ReplicationError(refusing: .bodyTooLarge(id: revision.id, bytes: revision.body.count, limit: settings.largestBody))
    }

    /// Handles a revision that is too large, or that has a blob that cannot be obtained or stored.
    ///
    /// - Parameter bytes: space it would take beyond its body and the blobs that the body names.
    mutating func hold(
        _ held: HeldRevision, _ error: ReplicationError, missing bytes: Int = 0, _ ended: inout [Insertion], _ actions: inout [PullAction]
    ) {
        // Only this revision fails, with a message; the next run, or a higher limit, tries it again.
        if settings.keepsLists, !error.isTransient { return keep(held, &actions) }
        let revision = held.revision
        batches.leave(revision.id, revision.bytes)
        var end = Insertion(revision, error.isTransient ? .postponed(error) : .refused(error))
        end.bytes += bytes
        ended.append(end)
    }

    /// Puts a revision of a batch on the list of held revisions.
    private mutating func keep(_ held: HeldRevision, _ actions: inout [PullAction]) {
        mayHaveHeld = true
        actions.append(.keep(batches.begin(keeping: held), [held]))
    }

    /// Has the filter asked; its answer comes back as ``InsertionEvent/judged(_:_:plugin:version:)``. Without a filter, revisions continue at once, with
    /// the sync function or with their blobs.
    private mutating func judge(_ batch: BatchID, _ revisions: [CheckedRevision], _ actions: inout [PullAction]) {
        guard settings.hasFilter, !revisions.isEmpty else {
            let free = settings.hasSyncFunction ? revisions : fetch(revisions, &actions)
            return admit(batch, free, attempt: 1, &actions)
        }
        batches.move(batch, to: .judging(revisions, isStale: false))
        actions.append(.judge(batch, revisions))
    }

    private mutating func acceptVerdicts(
        _ verdicts: [FilterVerdict], _ plugin: String, _ version: String, _ batch: BatchID, _ ended: inout [Insertion],
        _ actions: inout [PullAction]
    ) {
        guard case .judging(let revisions, let isStale)? = batches.step(batch) else { return }
        if isStale { return judge(batch, revisions, &actions) }
        var passed: [CheckedRevision] = []
        var kept: [HeldRevision] = []
        for (revision, verdict) in zip(revisions, verdicts) {
            // Kept with a revision that has to wait for blobs, so that the same version need not be asked twice.
            let answer = FilterAnswer(verdict: verdict, plugin: plugin, version: version)
            let answered = answered(revision, answer, &actions)
            // An earlier revision of its document waits for blobs: the verdict on this one is applied later.
            if batches.wait(answered) { continue }
            switch verdict {
            case .pass, .replace: if settings.hasSyncFunction || !divert(answered, &actions) { passed.append(settled(answered)) }
            case .reject: kept.append(HeldRevision(answered, rejectedBy: plugin, version: version))
            case .failed(let failure): kept.append(HeldRevision(answered, failure: failure))
            }
        }
        if kept.isEmpty { return admit(batch, passed, attempt: 1, &actions) }
        guard settings.keepsLists else {
            leave(kept, isListed: false, &ended)
            return admit(batch, passed, attempt: 1, &actions)
        }
        if settings.limits.hasPlanted(.forgottenHeldDocument) {
            leave(kept, isListed: true, &ended)
            return admit(batch, passed, attempt: 1, &actions)
        }
        mayHaveHeld = true
        batches.move(batch, to: .keeping(kept, passed: passed, isStale: false))
        actions.append(.keep(batch, kept))
    }

    private mutating func acceptKept(_ batch: BatchID, _ ended: inout [Insertion], _ actions: inout [PullAction]) {
        guard case .keeping(let kept, let passed, _)? = batches.step(batch) else { return }
        leave(kept, isListed: true, &ended)
        admit(batch, passed, attempt: 1, &actions)
    }

    /// These revisions leave their batch without being stored. `isListed`: they wait here; otherwise the peer still has them.
    private mutating func leave(_ kept: [HeldRevision], isListed: Bool, _ ended: inout [Insertion]) {
        for each in kept {
            batches.leave(each.revision.id, each.revision.bytes)
            let end: Insertion.End =
                switch each.cause {
                case .rejected: .rejected(reason: "a filter rejected the document", isListed: isListed)
                case .failure(let failure): .undecided(failure, isListed: isListed)
                case .blob(let error): isListed ? .held(error, .blob) : .refused(error)
                case .size(let error): isListed ? .held(error, .size) : .refused(error)
                }
            ended.append(Insertion(each.revision, end))
        }
    }

    /// These revisions passed the filter: the sync function is asked next, or they are stored.
    private mutating func admit(_ batch: BatchID, _ revisions: [CheckedRevision], attempt: Int, _ actions: inout [PullAction]) {
        if revisions.isEmpty {
            batches.end(batch)
        } else if settings.hasSyncFunction {
            batches.move(batch, to: .assigning(revisions, attempt: attempt))
            actions.append(.assign(batch, revisions))
        } else {
            store(batch, revisions.map { StorableRevision(revision: $0) }, attempt: attempt, &actions)
        }
    }

    private mutating func acceptJudgements(
        _ judgements: [SyncJudgement], _ batch: BatchID, _ ended: inout [Insertion], _ actions: inout [PullAction]
    ) {
        guard case .assigning(let revisions, let attempt)? = batches.step(batch) else { return }
        var accepted: [StorableRevision] = []
        for (revision, judgement) in zip(revisions, judgements) {
            switch judgement.verdict {
            case .accepted(let assignment):
                if needsBlobs(revision) {
                    var judged = revision
                    judged.judgement = judgement
                    if divert(judged, &actions) { continue }
                }
                let route = DocumentRoute(assignment, plugin: judgement.plugin, version: judgement.version)
                accepted.append(StorableRevision(revision: revision, route: route, seen: judgement.seen))
            case .rejected(let reason):
                batches.leave(revision.id, revision.bytes)
                ended.append(Insertion(revision, .rejected(reason: reason.isEmpty ? "the document is refused" : reason, isListed: false)))
            case .failed(let failure):
                batches.leave(revision.id, revision.bytes)
                ended.append(Insertion(revision, .undecided(failure, isListed: false)))
            }
        }
        store(batch, accepted, attempt: attempt, &actions)
    }

    private mutating func store(_ batch: BatchID, _ revisions: [StorableRevision], attempt: Int, _ actions: inout [PullAction]) {
        if revisions.isEmpty { return batches.end(batch) }
        batches.move(batch, to: .storing(revisions, attempt: attempt))
        let handling: ConflictHandling = !settings.isPassive ? .store : decidesPushes ? .storePushed : .refuse
        if settings.isPassive, settings.limits.hasPlanted(.settledBeforeStored) {
            for each in revisions { if let handle = each.revision.replyTo { actions.append(.settle(handle, .stored)) } }
        }
        actions.append(.store(batch, revisions, handling, settlesHeld: mayHaveHeld))
    }

    private mutating func acceptStored(
        _ outcomes: [StoreOutcome], _ batch: BatchID, _ ended: inout [Insertion], _ actions: inout [PullAction]
    ) {
        guard case .storing(let revisions, let attempt)? = batches.step(batch) else { return }
        var moved: [CheckedRevision] = []
        for index in 0..<min(revisions.count, outcomes.count) {
            let revision = revisions[index].revision
            switch outcomes[index] {
            case .moved where attempt < settings.limits.resolveAttempts:
                moved.append(revision)
                continue
            case .moved:
                let message = "the document changed every time sync had looked at it (resolve_attempts)"
                ended.append(Insertion(revision, .postponed(.busy(message))))
            case .stored(let outcome): ended.append(Insertion(revision, .stored(outcome)))
            case .failed(let error) where error.isOutOfSpace: ended.append(Insertion(revision, .postponed(ReplicationError(store: error))))
            case .failed(let error):
                ended.append(Insertion(revision, .refused(ReplicationError(refusing: error))))
            }
            batches.leave(revision.id, revision.bytes)
        }
        admit(batch, moved, attempt: attempt + 1, &actions)
    }

    /// Nothing of the batch was stored. The peer still has all of it, and since the sequences stay open, offers it again.
    private mutating func fail(_ batch: BatchID, _ error: any Error, _ ended: inout [Insertion]) {
        let hasRoom = (error as? StoreError)?.isOutOfSpace != true
        let failure = hasRoom ? ReplicationError.busy("the database cannot take the document now") : ReplicationError(store: error)
        switch batches.step(batch) {
        case .checking, nil: break
        case .judging(let revisions, _), .assigning(let revisions, _): for revision in revisions { postpone(revision, failure, &ended) }
        case .keeping(let kept, let passed, _):
            for each in kept { postpone(each.revision, failure, &ended) }
            for revision in passed { postpone(revision, failure, &ended) }
        case .storing(let revisions, _): for storable in revisions { postpone(storable.revision, failure, &ended) }
        }
        batches.end(batch)
    }

    private mutating func postpone(_ revision: CheckedRevision, _ failure: ReplicationError, _ ended: inout [Insertion]) {
        batches.leave(revision.id, revision.bytes)
        ended.append(Insertion(revision, .postponed(failure)))
    }
}
