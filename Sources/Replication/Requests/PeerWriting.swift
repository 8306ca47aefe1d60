// For CouchDBServer: peers that use HTTP requests. The counterpart for Couchbase Lite sessions is Driver/Passive/PassiveService.
import DocumentStore
import Documents
import Environment
import Interfaces

/// Stores what a peer of a listener writes by HTTP requests, under the same rules as pushes: read-only users, the pull filter, the sync function, the
/// limits of documents, and the conflict resolver if there is one.
///
/// Unlike a Couchbase Lite session, it keeps conflicts, as CouchDB does: all leaves stay, and the deterministic winner is read.
package struct PeerWriting: Sendable {
    /// One revision to store. Its blobs are already here.
    package struct Write: Sendable {
        package enum Revision: Sendable {
            /// A new revision on top of this leaf; nil for a document that does not exist, or is deleted.
            case edit(of: RevisionID?)
            /// A revision made elsewhere, with ancestors, newest first.
            case made(RevisionID, history: [RevisionID])
        }

        package var id: DocumentID
        package var revision: Revision
        package var isDeleted: Bool
        /// Without reserved keys except `_attachments`.
        package var body: [UInt8]

        package init(id: DocumentID, revision: Revision, isDeleted: Bool, body: [UInt8]) {
            (self.id, self.revision, self.isDeleted, self.body) = (id, revision, isDeleted, body)
        }
    }

    package enum Outcome: Sendable {
        case stored(RevisionID)
        /// The edited revision is not a leaf.
        case conflict
        case refused(ReplicationError)
    }

    /// `revisions_per_write`: revisions in one transaction, so that other writers get their turn.
    private static let revisionsPerWrite = 500

    let peer: PassiveConfiguration
    let collection: Collection
    let access: PeerAccess
    /// The peer's address.
    let remote: String
    let environment: Environment
    /// Why the peer would no longer be admitted; nil if it would. A request may have been in transit for long.
    let refusal: @Sendable () async -> ReplicationError?
    /// Blobs that arrived with the request.
    package var arrived: ArrivedBlobs?

    package init(
        _ peer: PassiveConfiguration, _ collection: Collection, access: PeerAccess, remote: String, environment: Environment,
        refusal: @escaping @Sendable () async -> ReplicationError?
    ) {
        (self.peer, self.collection, self.access, self.remote, self.environment) = (peer, collection, access, remote, environment)
        self.refusal = refusal
    }

    /// Returns one outcome for each write, in order, once everything stored is durable.
    ///
    /// - Throws: ``ReplicationError`` 401 for a peer that would no longer be admitted.
    package func store(_ writes: [Write]) async throws -> [Outcome] {
        if let why = peer.pushRefusalReason {
            let error = ReplicationError(domain: .http, code: 403, message: why)
            return writes.map { _ in .refused(error) }
        }
        if peer.syncFunction != nil { try await access.note(peer, collection) }
        var outcomes = [Outcome](repeating: .conflict, count: writes.count)
        var rest = Array(writes.indices)
        while !rest.isEmpty {
            // A write that is judged together with, or based on, a revision in this round waits until that is stored.
            var seen = Set<DocumentID>(minimumCapacity: min(rest.count, Self.revisionsPerWrite))
            var round: [Int] = []
            var later: [Int] = []
            for index in rest {
                let waits = round.count == Self.revisionsPerWrite || isAlone(writes[index]) && !seen.insert(writes[index].id).inserted
                if waits { later.append(index) } else { round.append(index) }
            }
            for (index, outcome) in zip(round, try await storeRound(round.map { writes[$0] })) { outcomes[index] = outcome }
            rest = later
        }
        return outcomes
    }

    private func isAlone(_ write: Write) -> Bool {
        if case .edit = write.revision { return true }
        return peer.syncFunction != nil
    }

    /// A write in progress.
    struct Step: Sendable {
        var index: Int
        var revision: CheckedRevision
        /// The leaf that an edit follows; the outer nil: it is not an edit.
        var parent: RevisionID??
        var route: DocumentRoute?
        var seen: RevisionID?
    }

    private func storeRound(_ writes: [Write]) async throws -> [Outcome] {
        var outcomes = [Outcome](repeating: .conflict, count: writes.count)
        var open = Array(writes.indices)
        var attempt = 0
        var conflicts: [DocumentID] = []
        while !open.isEmpty {
            attempt += 1
            if let refusal = await refusal() { throw refusal }
            // Most edits follow the leaf they name. If no policy is asked and everything is visible, this is verified when they are written, and the
            // others are looked up then.
            let isAsked = peer.pullFilter != nil || peer.syncFunction != nil
            let looksUp = attempt > 1 || isAsked || peer.channelPeer != nil || peer.pushFilter != nil
            var steps = try await check(writes, open, looksUp: looksUp, &outcomes)
            steps = try await keepBlobs(steps, &outcomes)
            let checked = steps
            steps = await filter(steps, &outcomes)
            let sender = try await sender(of: steps)
            steps = try await judge(steps, sender, &outcomes)
            try await hideRefusals(checked, &outcomes)
            if steps.isEmpty { break }
            open = []
            for (step, outcome) in zip(steps, try await write(steps, sender)) {
                switch outcome {
                case .moved where attempt < peer.limits.resolveAttempts: open.append(step.index)
                case .moved: outcomes[step.index] = .refused(Self.tooManyChanges)
                case .failed(.conflict) where !looksUp: open.append(step.index)
                case .failed(.conflict): outcomes[step.index] = .conflict
                case .failed(let error):
                    outcomes[step.index] = .refused(
                        ReplicationError(refusing: error))
                case .stored(.conflict), .stored(.ended): outcomes[step.index] = .conflict
                case .stored(let insertion):
                    outcomes[step.index] = .stored(step.revision.revision)
                    if case .insertedConflict = insertion { conflicts.append(step.revision.id) }
                }
            }
        }
        try await routeSuccessors(writes, outcomes)
        try await hideConflicts(writes, &outcomes)
        try await noteWrongNames(writes, outcomes)
        if !conflicts.isEmpty { try await decide(conflicts) }
        return outcomes
    }

    private static let tooManyChanges = ReplicationError(
        domain: .http, code: 503, message: "the document changed every time sync had looked at it (resolve_attempts)")

    // MARK: - Steps

    /// Checks the bodies, and determines the revisions that edits follow and become.
    ///
    /// - Parameter looksUp: if false, each edit is assumed to follow the revision it names.
    private func check(_ writes: [Write], _ open: [Int], looksUp: Bool, _ outcomes: inout [Outcome]) async throws -> [Step] {
        let collection = collection
        var heads: [Head] = []
        let edits = looksUp ? open.filter { writes[$0].isEdit } : []
        if !edits.isEmpty {
            heads = try await peer.database.read { transaction in try edits.map { try Self.head(writes[$0], collection, transaction) } }
        }
        // First of all: such writes get the same answer as for a revision that does not exist.
        let hidden = try await hiddenBranches(edits.map { writes[$0] })
        let distrusted = try await distrusted(edits.map { writes[$0] })
        var next = heads.makeIterator()
        var steps: [Step] = []
        steps.reserveCapacity(open.count)
        for index in open {
            let write = writes[index]
            var parent: RevisionID??
            var (revision, history): (RevisionID?, [RevisionID]) = (nil, [])
            switch write.revision {
            case .made(let made, let ancestors): (revision, history) = (made, ancestors)
            case .edit(let named):
                guard case .follows(let found)? = looksUp ? next.next() : .follows(named) else {
                    outcomes[index] = .conflict
                    continue
                }
                if let found {
                    guard !hidden.contains(SenderView.Branch(id: write.id, leaf: found)), named == nil || !distrusted.contains(write.id) else {
                        outcomes[index] = .conflict
                        continue
                    }
                    history = [found]
                }
                parent = .some(found)
            }
            if let checked = check(write, revision, history, &outcomes[index]) { steps.append(Step(index: index, revision: checked, parent: parent)) }
        }
        return steps
    }

    /// - Parameter made: nil to create the revision, on top of the first one of its history.
    func check(_ write: Write, _ made: RevisionID?, _ history: [RevisionID], _ outcome: inout Outcome) -> CheckedRevision? {
        let body: RevisionChecking.CheckedBody
        do { body = try RevisionChecking.check(write.body, of: write.id, isDeleted: write.isDeleted, peer.database.unusualKeys) } catch {
            outcome = .refused(error)
            return nil
        }
        let revision: RevisionID
        if let made {
            revision = made
        } else {
            guard let canonical = try? CanonicalJSON.bytes(ofChecked: body.body) else { return nil }
            revision = RevisionDigest.revision(parent: history.first, deleted: write.isDeleted, canonicalBody: canonical)
        }
        return CheckedRevision(
            id: write.id, revision: revision, history: RevisionHistory(history), isDeleted: write.isDeleted, body: body.body, blobs: body.blobs,
            isRemoval: body.isRemoval, expiry: body.expiry)
    }

    private enum Head: Sendable {
        case conflict
        case follows(RevisionID?)
    }

    private static func head(_ write: Write, _ collection: Collection, _ transaction: ReadTransaction) throws(StoreError) -> Head {
        guard case .edit(let parent) = write.revision else { return .conflict }
        guard let row = try transaction.row(collection, write.id) else { return parent == nil ? .follows(nil) : .conflict }
        guard let parent else { return row.isDeleted ? .follows(row.revision) : .conflict }
        if parent == row.revision { return .follows(parent) }
        guard row.hasTree else { return .conflict }
        return try row.revisionTree().isLeaf(parent) ? .follows(parent) : .conflict
    }

    /// Looks up the blobs that the documents name again, which protects them from garbage collection while policies are asked: the revision that
    /// referenced them may be removed in the meantime.
    private func keepBlobs(_ steps: [Step], _ outcomes: inout [Outcome]) async throws -> [Step] {
        let named = Set(steps.flatMap { $0.revision.blobs.map(\.digest) })
        guard !named.isEmpty else { return steps }
        let gone = try await peer.database.blobs.perform { [arrived] blobs in named.filter { !blobs.contains($0, arrived: arrived) } }
        return steps.filter { step in
            guard let blob = step.revision.blobs.first(where: { gone.contains($0.digest) }) else { return true }
            outcomes[step.index] = .refused(
                ReplicationError(domain: .http, code: 412, message: "the document names the blob \(blob.digest), which is not here any more"))
            return false
        }
    }

    func filter(_ steps: [Step], _ outcomes: inout [Outcome]) async -> [Step] {
        guard let filter = peer.pullFilter, !steps.isEmpty else { return steps }
        let questions = steps.map {
            PolicyDocument(id: $0.revision.id, revision: $0.revision.revision, isDeleted: $0.revision.isDeleted, body: $0.revision.body)
        }
        let verdicts = await filter.verdicts(questions, peer.policyContext(collection.name, .pull, remote: remote))
        var passed: [Step] = []
        for (step, verdict) in zip(steps, verdicts) {
            switch verdict {
            case .pass: passed.append(step)
            case .replace(let body):
                var step = step
                step.revision.replaceBody(body)
                passed.append(step)
            case .reject:
                outcomes[step.index] = .refused(ReplicationError(domain: .http, code: 403, message: "a filter rejected the document"))
            case .failed(let failure): outcomes[step.index] = .refused(.busy(failure))
            }
        }
        return passed
    }

    /// - Parameter showsPresent: whether the sync function is shown the stored document.
    func judge(_ steps: [Step], _ sender: SenderView?, _ outcomes: inout [Outcome], showsPresent: Bool = true) async throws -> [Step] {
        guard let function = peer.syncFunction, !steps.isEmpty else { return steps }
        let asking = SyncAsking(
            database: peer.database, collection: collection, function: function, principal: peer.principal,
            peer: ChannelPeer(user: peer.principal.name, listener: peer.listener),
            context: peer.policyContext(collection.name, .pull, remote: remote), setsAccess: false, sender: sender,
            showsPresent: showsPresent)
        let judgements = try await asking.judge(steps.map(\.revision)).get()
        var accepted: [Step] = []
        for (step, judgement) in zip(steps, judgements) {
            switch judgement.verdict {
            case .accepted(let assignment):
                var step = step
                step.route = DocumentRoute(assignment, plugin: judgement.plugin, version: judgement.version)
                step.seen = judgement.seen
                accepted.append(step)
            case .rejected(let reason):
                let message = reason.isEmpty ? "the document is refused" : reason
                outcomes[step.index] = .refused(ReplicationError(domain: .http, code: 403, message: message))
            case .failed(let failure): outcomes[step.index] = .refused(.busy(failure))
            }
        }
        return accepted
    }

    private func write(_ steps: [Step], _ sender: SenderView?) async throws -> [StoreOutcome] {
        // With a resolver, the stored side remains the readable one until it has decided; without one, the deterministic winner is read.
        var storing = RevisionStoring(
            collection: collection, remote: nil, conflicts: peer.resolver == nil ? .store : .storePushed, settlesHeld: false, keepsLeaves: true)
        storing.sender = sender
        let collection = collection
        return try await peer.database.write { [storing] transaction in
            transaction.keepsSmallBases = true
            // An edit is the only one of its document in a round: whether it may be stored does not depend on the others.
            var outcomes: [StoreOutcome] = []
            var storable: [StorableRevision] = []
            storable.reserveCapacity(steps.count)
            for step in steps {
                let isFree = try step.parent.map { parent throws(StoreError) in try Self.isFree(step.revision.id, parent, collection, transaction) } ?? true
                outcomes.append(isFree ? .moved : .failed(.conflict(id: step.revision.id, current: nil)))
                if isFree {
                    let isEdit = step.parent.map { _ in true } ?? false
                    storable.append(StorableRevision(revision: step.revision, route: step.route, seen: step.seen, isEdit: isEdit))
                }
            }
            var stored = try storing.store(storable, transaction).makeIterator()
            for index in outcomes.indices { if case .moved = outcomes[index], let outcome = stored.next() { outcomes[index] = outcome } }
            return outcomes
        }
    }

    /// What the peer may see of the documents it changes; nil if it may see all of them.
    private func sender(of steps: [Step]) async throws -> SenderView? {
        guard let view = try await view() else { return nil }
        return try await view.sender(of: steps.map(\.revision), peer, remote: remote)
    }

    /// What the peer may see of the collection; nil: everything.
    func view() async throws -> PeerView? {
        guard peer.channelPeer != nil || peer.pushFilter != nil else { return nil }
        try await access.note(peer, collection)
        return PeerView(
            database: peer.database, collection: collection, peer: peer.channelPeer, filter: peer.pushFilter,
            context: peer.policyContext(collection.name, .push, remote: remote))
    }

    /// Whether the leaf that an edit follows is still a leaf.
    private static func isFree(
        _ id: DocumentID, _ parent: RevisionID?, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Bool {
        guard let row = try transaction.row(collection, id) else { return parent == nil }
        guard let parent else { return false }
        if parent == row.revision { return true }
        guard row.hasTree else { return false }
        return try row.revisionTree().isLeaf(parent)
    }

    /// If a resolver fails, its conflicts stay pending.
    private func decide(_ ids: [DocumentID]) async throws {
        guard let resolver = peer.resolver else { return peer.leavesConflicts() }
        let decider = ConflictDecider(
            database: peer.database, collection: collection, resolver: resolver, shadow: peer.shadow,
            context: peer.policyContext(collection.name, .pull, remote: remote), scope: .remote(.pusher),
            attempts: peer.limits.resolveAttempts, observer: peer.conflictObserver)
        var seen: Set<DocumentID> = []
        _ = try await decider.decide(ids.filter { seen.insert($0).inserted })
    }
}

extension PeerWriting.Write {
    fileprivate var isEdit: Bool {
        if case .edit = revision { return true }
        return false
    }
}
