import Documents
import DocumentStore
import Environment
import Interfaces

/// Decides the conflicts of one collection: asks the resolver outside any transaction, commits its answer after checking that both leaves are
/// unchanged, and asks again, a limited number of times, if the document changed in the meantime. Each decision is recorded in the transaction that
/// commits it.
public struct ConflictDecider: Sendable {
    public let database: Database
    public let collection: Collection
    /// Nil for Couchbase Lite's default rule: that of version 4 between version vectors, otherwise that of version 3.
    public let resolver: (any ConflictResolver)?
    /// Observes the decisions without influencing them.
    public let shadow: ShadowResolver?
    public let context: PolicyContext
    /// The pending conflicts for which this decider is responsible.
    public let scope: ConflictScope
    /// The peer keeps every branch: see `WriteTransaction.resolveConflict`.
    public var keepsGreater = false
    /// Maximum number of decisions of one conflict, including the first.
    public let attempts: Int
    var environment: Environment { database.environment }
    let observer: ConflictObserver

    public init(
        database: Database, collection: Collection, resolver: (any ConflictResolver)?, shadow: ShadowResolver? = nil,
        context: PolicyContext, scope: ConflictScope = .all, attempts: Int = 10, observer: @escaping ConflictObserver = { _ in }
    ) {
        self.database = database
        self.collection = collection
        self.resolver = resolver
        self.shadow = shadow
        self.context = context
        self.scope = scope
        self.attempts = attempts
        self.observer = observer
    }

    /// The outcome of one conflict.
    public struct Outcome: Sendable {
        public var id: DocumentID
        /// Nil if the conflict is decided or gone; otherwise why it remains pending.
        public var failure: PolicyFailure?
        /// Whether the conflict was decided by this call.
        public var isDecided: Bool
        /// The revisions of both branches, if the peer keeps every branch.
        public var branches: Set<RevisionID> = []
    }

    /// A resolver's answer, ready to be committed.
    struct Answer: Sendable {
        var conflict: Conflict
        var decision: ConflictDecision
        var resolution: Resolution
        var plugin: String
        var version: String
        var microseconds: Int64
    }

    /// The result of one transaction.
    private struct Committed: Sendable {
        var done: [(answer: Answer, revision: RevisionID, number: Int64?)] = []
        /// Documents with further branches, which are decided next.
        var unfinished: [DocumentID] = []
        /// Documents that changed in the meantime.
        var moved: [DocumentID] = []
        var failed: [(id: DocumentID, failure: PolicyFailure, isUnreported: Bool)] = []
    }

    /// Decides a batch of conflicts in rounds of one read, one answer for each conflict, and one transaction, until none is left to be decided again.
    ///
    /// - Parameter doubtful: documents whose remote side the peer may have lost: it is offered the result, whatever that is.
    /// - Returns: the outcomes; a document with more than two branches may have several.
    /// - Throws: ``StoreError``.
    public func decide(_ ids: [DocumentID], doubtful: Set<DocumentID> = []) async throws -> [Outcome] {
        var outcomes: [Outcome] = []
        var branches: [DocumentID: Set<RevisionID>] = [:]
        var open = ids
        var attempt = 1
        while !open.isEmpty {
            let asked = open
            let conflicts = try await database.read { transaction in
                try asked.compactMap { try transaction.conflict(collection, $0) }
            }
            if keepsGreater { for (id, found) in try await revisions(conflicts) { branches[id, default: []].formUnion(found) } }
            let present = Set(conflicts.map(\.id))
            outcomes += asked.filter { !present.contains($0) }.map { Outcome(id: $0, failure: nil, isDecided: false) }
            var answers: [Answer] = []
            var failed: [(DocumentID, PolicyFailure)] = []
            for conflict in conflicts {
                switch await answer(conflict) {
                case .success(let answer): answers.append(answer)
                case .failure(let failure): failed.append((conflict.id, failure))
                }
            }
            let work = (answers, failed)
            let isLast = attempt >= attempts
            let committed = try await database.write { transaction in
                try commit(work.0, work.1, doubtful: doubtful, isLast: isLast, transaction)
            }
            for (answer, revision, number) in committed.done {
                outcomes.append(Outcome(id: answer.conflict.id, failure: nil, isDecided: true, branches: branches[answer.conflict.id] ?? []))
                tell(answer, revision, number)
            }
            for (id, failure, isUnreported) in committed.failed {
                outcomes.append(Outcome(id: id, failure: failure, isDecided: false))
                if isUnreported { tell(id, failure) }
            }
            // Each round either ends a branch of every unfinished conflict, or counts as an attempt.
            open = committed.unfinished + (isLast ? [] : committed.moved)
            if !committed.moved.isEmpty { attempt += 1 }
        }
        return outcomes
    }

    /// The revisions from the fork to the ends of both branches: the peer may have any of them.
    private func revisions(_ conflicts: [Conflict]) async throws -> [(DocumentID, [RevisionID])] {
        try await database.read { transaction in
            try conflicts.compactMap { conflict in
                guard let tree = try transaction.tree(collection, conflict.id) else { return nil }
                return (conflict.id, [conflict.local, conflict.remote].flatMap { side in
                    [side.revision] + tree.ancestors(of: side.revision, limit: StoreLimits.historyDepth).prefix { $0 != conflict.baseRevision }
                })
            }
        }
    }

    /// Asks the resolver, or applies the default rule.
    func answer(_ conflict: Conflict) async -> Result<Answer, PolicyFailure> {
        let answer = await resolverAnswer(conflict)
        guard case .failure = answer, resolver?.fallsBackToRule == true else { return answer }
        // As without a resolver, the history names no plugin. The failure is in the plugin's log and counters.
        return Self.defaultAnswer(conflict).map(Result.success) ?? answer
    }

    private static func defaultAnswer(_ conflict: Conflict) -> Answer? {
        let decision: ConflictDecision = defaultWinner(conflict) == .local ? .local : .remote
        return decision.resolution.map { Answer(conflict: conflict, decision: decision, resolution: $0, plugin: "", version: "", microseconds: 0) }
    }

    /// The resolver's answer, or that of the default rule if there is no resolver.
    func resolverAnswer(_ conflict: Conflict) async -> Result<Answer, PolicyFailure> {
        // Read first: if the resolver is replaced in between, the earlier version most likely answered.
        var version = resolver?.version ?? ""
        let start = environment.time.monotonicNanoseconds()
        let decision = await decision(conflict)
        let microseconds = Int64((environment.time.monotonicNanoseconds() - start) / 1_000)
        // A resolver that is loaded by its first call has a version only afterwards.
        if version.isEmpty, let resolver { version = resolver.version }
        guard let resolution = decision.resolution else {
            if case .failed(let failure) = decision { return .failure(failure) }
            return .failure(failure("the resolver gave no answer"))
        }
        if case .merged(let body) = resolution {
            do {
                if let missing = try await missingBlob(in: body, conflict) {
                    return .failure(failure("the resolver's answer for \(conflict.id) names the blob \(missing), which neither side has and which is not here"))
                }
            } catch {
                return .failure(failure("the blobs that the resolver's answer for \(conflict.id) names cannot be looked for: \(error)"))
            }
        }
        return .success(
            Answer(
                conflict: conflict, decision: decision, resolution: resolution, plugin: resolver?.pluginName ?? "", version: version,
                microseconds: microseconds))
    }

    /// A blob that a merged body names and that is nowhere: the document could not be sent to anybody. Blobs that a side already names are not the
    /// resolver's fault.
    private func missingBlob(in body: [UInt8], _ conflict: Conflict) async throws -> BlobDigest? {
        let named = ((try? BlobReferences.find(in: body)) ?? []).map(\.digest)
        guard !named.isEmpty else { return nil }
        let sides = [conflict.local.body, conflict.remote.body, conflict.base?.body ?? []]
        let known = Set(sides.flatMap { ((try? BlobReferences.find(in: $0)) ?? []).map(\.digest) })
        let others = named.filter { !known.contains($0) }
        guard !others.isEmpty else { return nil }
        return try await database.blobs.perform { blobs in others.first { !blobs.contains($0) } }
    }

    private func decision(_ conflict: Conflict) async -> ConflictDecision {
        guard let resolver else { return Self.defaultWinner(conflict) == .local ? .local : .remote }
        // Two deletions need no resolver.
        if conflict.local.isDeleted, conflict.remote.isDeleted { return .remote }
        return await resolver.resolve(PolicyConflict(conflict), context)
    }

    /// Each generation of peers has its own rule: if the other side decides as well, both come to the same result.
    static func defaultWinner(_ conflict: Conflict) -> ConflictWinner {
        let (local, remote) = (conflict.local, conflict.remote)
        if conflict.hasTimes, let mine = local.version, let theirs = remote.version {
            return ConflictRule.laterWinner(local: (mine, local.isDeleted), remote: (theirs, remote.isDeleted))
        }
        return ConflictRule.defaultWinner(local: (local.revision, local.isDeleted), remote: (remote.revision, remote.isDeleted))
    }

    func failure(_ message: String) -> PolicyFailure {
        PolicyFailure(
            plugin: resolver?.pluginName ?? "", version: resolver?.version ?? "", kind: "plugin_result", message: message)
    }

    var tooManyChanges: PolicyFailure {
        failure("the document changed during each of \(attempts) decisions (resolve_attempts); it is tried again later")
    }

    private func commit(
        _ answers: [Answer], _ failed: [(DocumentID, PolicyFailure)], doubtful: Set<DocumentID>, isLast: Bool, _ transaction: WriteTransaction
    ) throws(StoreError) -> Committed {
        var committed = Committed()
        func pend(_ id: DocumentID, _ failure: PolicyFailure) throws(StoreError) {
            let before = try transaction.pendingConflict(collection, id)
            try transaction.setPendingConflict(
                collection, id, error: failure.message, plugin: failure.plugin, version: failure.version)
            let isUnreported = before.map { $0.tries == 0 || $0.plugin != failure.plugin || $0.version != failure.version } ?? true
            committed.failed.append((id, failure, isUnreported))
        }
        for answer in answers {
            let id = answer.conflict.id
            do throws(StoreError) {
                let saved = try transaction.resolveConflict(
                    collection, id: id, expectedLocal: answer.conflict.local.revision,
                    expectedRemote: answer.conflict.remote.revision, resolution: answer.resolution, keepsGreater: keepsGreater,
                    isRemoteSideDoubtful: doubtful.contains(id))
                committed.done.append((answer, saved.revision, try record(answer, saved.revision, transaction)))
                if try transaction.pendingConflict(collection, id).map({ scope.contains($0.remoteID) }) == true { committed.unfinished.append(id) }
            } catch .conflictMoved, .notFound {
                committed.moved.append(id)
                if isLast { try pend(id, tooManyChanges) }
            } catch {
                guard error.concernsOneDocument else { throw error }
                try pend(id, failure("the resolver's answer for \(id) cannot be stored: \(error)"))
            }
        }
        for (id, failure) in failed { try pend(id, failure) }
        return committed
    }

    /// Adds the decision to the history, and returns its number there.
    func record(_ answer: Answer, _ revision: RevisionID, _ transaction: WriteTransaction) throws(StoreError) -> Int64? {
        try transaction.recordDecision(
            collection,
            DecidedConflict(
                conflict: answer.conflict, resolution: answer.resolution, result: revision, place: ConflictPlace(context),
                plugin: answer.plugin, version: answer.version, microseconds: answer.microseconds))
    }

    /// Called after the commit: passes the decision to the shadow and the observer.
    func tell(_ answer: Answer, _ revision: RevisionID, _ number: Int64?) {
        if let shadow, let number {
            shadow.ask(.init(conflict: PolicyConflict(answer.conflict), context: context, decision: answer.decision, version: answer.version, number: number))
        }
        observer(
            ConflictEvent(
                context, answer.conflict.id, plugin: answer.plugin, version: answer.version,
                .decided(answer.resolution.kind, revision: revision, number: number), deleted: answer.deletedSides))
    }

    private func tell(_ id: DocumentID, _ failure: PolicyFailure) {
        observer(ConflictEvent(context, id, plugin: failure.plugin, version: failure.version, .pending(failure)))
    }

    /// One page of the collection's pending conflicts.
    public struct Page: Sendable {
        /// The conflicts in the decider's scope.
        public var ids: [DocumentID]
        /// The position at which the list continues; nil at its end.
        public var next: DocumentID?
    }

    /// The documents in conflict, one page at a time.
    public func conflicted(after: DocumentID?, limit: Int) async throws -> Page {
        try await database.read { try conflicted($0, after: after, limit: limit) }
    }

    /// The same within a transaction.
    func conflicted(_ transaction: ReadTransaction, after: DocumentID?, limit: Int) throws(StoreError) -> Page {
        let rows = try transaction.pendingConflicts(collection, after: after, limit: limit)
        return Page(
            ids: rows.filter { scope.contains($0.remoteID) }.map(\.id), next: rows.count < limit ? nil : rows.last?.id)
    }
}
