import Documents
import DocumentStore

/// Decides the conflicts of one collection: asks the resolver outside of any transaction, commits its answer by comparing
/// both leaves, and asks again, a bounded number of times, when the document changed meanwhile.
public struct ConflictDecider: Sendable {
    public let database: Database
    public let collection: Collection
    /// Nil for the default rule of Couchbase Lite 3.
    public let resolver: (any ConflictResolver)?
    public let context: PolicyContext
    /// How often one conflict is decided anew.
    public let attempts: Int

    public init(
        database: Database, collection: Collection, resolver: (any ConflictResolver)?, context: PolicyContext, attempts: Int = 10
    ) {
        self.database = database
        self.collection = collection
        self.resolver = resolver
        self.context = context
        self.attempts = attempts
    }

    /// What became of one conflict.
    public struct Outcome: Sendable {
        public var id: DocumentID
        /// Nil when the conflict is decided or gone; else why it stays pending.
        public var failure: PolicyFailure?
        /// The conflict was decided now.
        public var isDecided: Bool
    }

    /// Decides a batch of conflicts: one read, one answer each, one transaction.
    public func decide(_ ids: [DocumentID]) async throws -> [Outcome] {
        var outcomes: [Outcome] = []
        var open = ids
        for attempt in 1...max(1, attempts) {
            guard !open.isEmpty else { break }
            let asked = open
            let conflicts = try await database.read { transaction in
                try asked.compactMap { try transaction.conflict(collection, $0) }
            }
            let present = Set(conflicts.map(\.id))
            outcomes += open.filter { !present.contains($0) }.map { Outcome(id: $0, failure: nil, isDecided: false) }
            var decided: [(Conflict, Resolution)] = []
            var failed: [(DocumentID, PolicyFailure)] = []
            for conflict in conflicts {
                switch await decision(conflict) {
                case .local: decided.append((conflict, .localWins))
                case .remote: decided.append((conflict, .remoteWins))
                case .merged(let body): decided.append((conflict, .merged(body)))
                case .delete: decided.append((conflict, .delete))
                case .failed(let failure): failed.append((conflict.id, failure))
                }
            }
            let work = (decided, failed)
            let isLast = attempt == attempts
            let (moved, refused) = try await database.write { transaction in
                try commit(work.0, work.1, isLast: isLast, transaction)
            }
            let movedIDs = Set(moved)
            let refusedIDs = Dictionary(refused, uniquingKeysWith: { first, _ in first })
            for (conflict, _) in decided where !movedIDs.contains(conflict.id) {
                outcomes.append(Outcome(id: conflict.id, failure: refusedIDs[conflict.id], isDecided: refusedIDs[conflict.id] == nil))
            }
            for (id, failure) in failed { outcomes.append(Outcome(id: id, failure: failure, isDecided: false)) }
            open = moved
        }
        for id in open {
            outcomes.append(Outcome(id: id, failure: tooManyChanges, isDecided: false))
        }
        return outcomes
    }

    private var tooManyChanges: PolicyFailure {
        PolicyFailure(
            plugin: resolver?.pluginName ?? "", version: resolver?.version ?? "", kind: "plugin_result",
            message: "the document changed during each of \(attempts) decisions (resolve_attempts); it is tried again later")
    }

    /// The documents that changed meanwhile, and those whose decision the store refused.
    private func commit(
        _ decided: [(Conflict, Resolution)], _ failed: [(DocumentID, PolicyFailure)], isLast: Bool, _ transaction: WriteTransaction
    ) throws(StoreError) -> ([DocumentID], [(DocumentID, PolicyFailure)]) {
        var moved: [DocumentID] = []
        var refused: [(DocumentID, PolicyFailure)] = []
        for (conflict, resolution) in decided {
            do throws(StoreError) {
                _ = try transaction.resolveConflict(
                    collection, id: conflict.id, expectedLocal: conflict.local.revision,
                    expectedRemote: conflict.remote.revision, resolution: resolution)
            } catch .conflictMoved, .notFound {
                moved.append(conflict.id)
                if isLast { try pend(conflict.id, tooManyChanges, transaction) }
            } catch {
                guard error.concernsOneDocument else { throw error }
                let failure = PolicyFailure(
                    plugin: resolver?.pluginName ?? "", version: resolver?.version ?? "", kind: "plugin_result",
                    message: "the resolver's answer for \(conflict.id) cannot be stored: \(error)")
                refused.append((conflict.id, failure))
                try pend(conflict.id, failure, transaction)
            }
        }
        for (id, failure) in failed { try pend(id, failure, transaction) }
        return (moved, refused)
    }

    private func pend(_ id: DocumentID, _ failure: PolicyFailure, _ transaction: WriteTransaction) throws(StoreError) {
        try transaction.setPendingConflict(
            collection, id, error: failure.message, plugin: failure.plugin, version: failure.version)
    }

    private func decision(_ conflict: Conflict) async -> ConflictDecision {
        guard let resolver else {
            let winner = ConflictRule.defaultWinner(
                local: (conflict.local.revision, conflict.local.isDeleted),
                remote: (conflict.remote.revision, conflict.remote.isDeleted))
            return winner == .local ? .local : .remote
        }
        // Two deletions need no opinion.
        if conflict.local.isDeleted, conflict.remote.isDeleted { return .remote }
        let question = PolicyConflict(
            id: conflict.id, local: document(conflict.id, conflict.local), remote: document(conflict.id, conflict.remote),
            base: conflict.base.map {
                PolicyDocument(id: conflict.id, revision: $0.revision, isDeleted: false, body: $0.body)
            },
            localRevision: conflict.local.revision, remoteRevision: conflict.remote.revision,
            baseRevision: conflict.base?.revision)
        return await resolver.resolve(question, context)
    }

    private func document(_ id: DocumentID, _ side: Conflict.Side) -> PolicyDocument? {
        side.isDeleted ? nil : PolicyDocument(id: id, revision: side.revision, isDeleted: false, body: side.body)
    }

    /// All documents of the collection that are in conflict, in pages.
    public func conflicted(after: DocumentID?, limit: Int) async throws -> [DocumentID] {
        try await database.read { try $0.conflictedDocuments(collection, after: after, limit: limit) }
    }
}
