import Documents
import DocumentStore
import Interfaces

/// A peer's writes on a listener with a sync function: it decides about each, and what it assigns is stored with the revision.
extension ReplicationSession {
    private struct Decided: Sendable {
        var revision: CheckedRevision
        /// The document's revision that the function saw; nil: there was none.
        var seen: RevisionID?
        var route: DocumentRoute
    }

    func commit(_ sync: CollectionSync, _ batch: [CheckedRevision], by function: any SyncFunction, _ passive: PassiveConfiguration) async {
        var waiting = batch
        var attempts = 0
        do {
            if let peer = channelPeer { try await setAccess(sync, peer) }
            while !waiting.isEmpty, !hasEnded {
                attempts += 1
                guard attempts <= limits.resolveAttempts else {
                    refuseSynced(sync, waiting.map { ($0, .failed(Self.moving(function))) })
                    return
                }
                let decided = try await decide(sync, waiting, function, passive)
                if hasEnded { return }
                waiting = decided.map(\.revision)
                waiting = try await store(sync, decided)
            }
        } catch {
            commitFailed(sync, waiting, error)
        }
    }

    /// Asks the function; what it does not let in is answered here.
    private func decide(
        _ sync: CollectionSync, _ batch: [CheckedRevision], _ function: any SyncFunction, _ passive: PassiveConfiguration
    ) async throws -> [Decided] {
        let collection = sync.collection
        let peer = ChannelPeer(user: passive.principal.name, listener: passive.listener)
        let name = passive.principal.name
        let (requests, seen) = try await database.read { transaction -> ([SyncRequest], [RevisionID?]) in
            let access = try transaction.channelAccess(collection, of: peer)
            let caller = SyncCaller(name: name, roles: access.roles, channels: access.channels)
            var requests: [SyncRequest] = []
            var seen: [RevisionID?] = []
            for revision in batch {
                let current = try transaction.document(collection, revision.id)
                let old = current.flatMap { current in
                    current.isDeleted
                        ? nil : PolicyDocument(id: current.id, revision: current.revision, isDeleted: false, body: current.body)
                }
                requests.append(
                    SyncRequest(
                        document: PolicyDocument(
                            id: revision.id, revision: revision.revision, isDeleted: revision.isDeleted, body: revision.body),
                        old: old, caller: caller))
                seen.append(current?.revision)
            }
            return (requests, seen)
        }
        let version = function.version
        let verdicts = await function.assign(requests, policyContext(sync, .pull))
        var decided: [Decided] = []
        var refused: [(CheckedRevision, SyncVerdict)] = []
        for (index, revision) in batch.enumerated() {
            let verdict = index < verdicts.count ? verdicts[index] : function.missingVerdict
            if case .accepted(let assignment) = verdict {
                let route = DocumentRoute(assignment, plugin: function.pluginName, version: version)
                decided.append(Decided(revision: revision, seen: seen[index], route: route))
            } else {
                refused.append((revision, verdict))
            }
        }
        if !refused.isEmpty, !hasEnded { refuseSynced(sync, refused) }
        return decided
    }

    /// Stores revisions with what was assigned to them, in one transaction.
    /// - Returns: those whose document changed since the function looked at it.
    private func store(_ sync: CollectionSync, _ decided: [Decided]) async throws -> [CheckedRevision] {
        guard !decided.isEmpty else { return [] }
        let collection = sync.collection
        let outcomes = try await database.write { transaction -> [Result<InsertOutcome, StoreError>?] in
            var outcomes: [Result<InsertOutcome, StoreError>?] = []
            for each in decided {
                let revision = each.revision
                let current = try transaction.document(collection, revision.id)?.revision
                guard current == each.seen || current == revision.revision else {
                    outcomes.append(nil)
                    continue
                }
                let incoming = IncomingRevision(
                    id: revision.id, revision: revision.revision, history: revision.history, isDeleted: revision.isDeleted,
                    body: revision.body, isValidated: true, hasBlobs: !revision.blobs.isEmpty)
                do throws(StoreError) {
                    let outcome = try transaction.insert(incoming, into: collection, conflicts: .refuse)
                    // A tombstone that ends another branch leaves the current revision, and its channels, alone.
                    if case .inserted = outcome, try transaction.document(collection, revision.id)?.revision == revision.revision {
                        try transaction.route(collection, revision.id, revision.revision, each.route)
                    }
                    outcomes.append(.success(outcome))
                } catch {
                    guard error.concernsOneDocument else { throw error }
                    outcomes.append(.failure(error))
                }
            }
            return outcomes
        }
        if hasEnded { return [] }
        var stored: [CheckedRevision] = []
        var results: [Result<InsertOutcome, StoreError>] = []
        var moved: [CheckedRevision] = []
        for (each, outcome) in zip(decided, outcomes) {
            guard let outcome else {
                moved.append(each.revision)
                continue
            }
            stored.append(each.revision)
            results.append(outcome)
        }
        together { settle(sync, stored, results) }
        progressed(sync)
        return moved
    }

    private func refuseSynced(_ sync: CollectionSync, _ refused: [(CheckedRevision, SyncVerdict)]) {
        var rejected: UInt64 = 0
        together {
            for (revision, verdict) in refused {
                // 503 keeps the document at the peer, which comes back; 403 makes it give the revision up.
                if case .failed(let failure) = verdict {
                    report(
                        DocumentEvent(
                            id: revision.id, collection: sync.collection.name, direction: .pull, isDeleted: revision.isDeleted,
                            error: ReplicationError(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")))
                    refuse(revision.replyTo, 503, "the document is held: \(failure.kind)")
                } else if case .rejected(let reason) = verdict {
                    rejected += 1
                    refuse(revision.replyTo, 403, reason.isEmpty ? "the document is refused" : reason)
                }
            }
        }
        counters.update {
            $0.rejected += rejected
            $0.held += UInt64(refused.count) - rejected
            $0.completed += UInt64(refused.count)
        }
        progressed(sync)
    }

    private static func moving(_ function: any SyncFunction) -> PolicyFailure {
        PolicyFailure(
            plugin: function.pluginName, version: function.version, kind: "plugin_error",
            message: "the document changed each time that sync had looked at it (resolve_attempts)")
    }
}

extension DocumentRoute {
    init(_ assignment: SyncAssignment, plugin: String, version: String) {
        self.init(
            channels: Set(assignment.channels), access: assignment.access, roles: assignment.roles, expires: assignment.expiry,
            plugin: plugin, version: version)
    }
}
