import Documents
import DocumentStore
import Interfaces
import Synchronization

/// Additional connections besides the one that replicates.
extension Replicator {
    /// Requests once more, by name, documents whose revision at the peer is not here although the pull is complete. Only one attempt at a time;
    /// returns false if nothing came of it that a push has to wait for.
    @discardableResult
    func hasFetchedMissing() async -> Bool {
        if let fetcher { return await fetcher.value }
        let missing = shared.withLock { $0.missing.take() }
        guard !missing.isEmpty, !isStopping else { return false }
        let task = environment.task { await self.fetch(missing) }
        fetcher = task
        let isDone = await task.value
        fetcher = nil
        // More documents may have become due in the meantime.
        let isMoreDone = await hasFetchedMissing()
        return isDone || isMoreDone
    }

    private func fetch(_ missing: MissingRevisions.Wanted) async -> Bool {
        guard let reached = try? await connector.reach(configuration.chosen.key) else {
            await requestAgainLater(missing)
            return false
        }
        let transport = reached.transport
        guard !isStopping else {
            transport.drop()
            return false
        }
        var only = configuration.at(reached.remote)
        (only.type, only.isContinuous) = (.pull, false)
        only.collections = configuration.collections.compactMap { wanted in
            if missing.rereadings[wanted.collection] != nil { return wanted }
            guard let ids = missing.documents[wanted.collection] else { return nil }
            var wanted = wanted
            wanted.documentIDs = ids
            return wanted
        }
        let counters = ReplicationCounters()
        var active = ActiveConfiguration(replicator: only, resets: true, startsLegacy: speaksLegacy, savesCheckpoint: false)
        (active.reviewsHeld, active.caution, active.insists) = (false, caution, missing.concernsPushes)
        active.heldBefore = missing.held.mapValues(Set.init)
        active.startsSince = missing.rereadings.mapValues(\.since)
        let (offered, owed) = (Offers(of: missing), Owed())
        let correlation = transport.correlationID
        let end = await replicate(
            over: transport, active, counters, correlation: correlation, offered: { offered.note($0, $1) }, filtered: { offered.note(filtered: $0) },
            told: { owed.note($0) })
        shared.withLock { $0.counters.add(counters.snapshot) }
        if end.wasEvicted { caution = caution.next }
        // Otherwise it is unknown what would have been offered.
        if end.error == nil, end.ending == .complete {
            await forgetWithdrawn(missing.held.keys.sorted(), offered, correlation)
            await forgetTooLarge(owed.settled(missing.tooLarge))
            await forgetUnnamed(missing.rereadings.keys.filter { owed.isSettled($0) })
        }
        if end.error != nil || end.ending != .complete || !owed.isEmpty || offered.areUncertain { await requestAgainLater(missing) }
        return end.error == nil && missing.concernsPushes
    }

    /// Some of these documents are still not here although the remote may have them: the next connection of a continuous replicator, which follows after
    /// a growing delay, notices them again. Without it, nothing would as long as the present connection lasts.
    private func requestAgainLater(_ missing: MissingRevisions.Wanted) async {
        guard configuration.isContinuous, !isStopping else { return }
        shared.withLock { $0.missing.forgetRequest(missing) }
        for session in sessions { await session.reconnectLater() }
    }

    /// Which of the documents that wait here for a blob a connection was offered.
    private final class Offers: Sendable {
        private struct State {
            var ids: [CollectionName: Set<DocumentID>] = [:]
            var filtered: Set<CollectionName> = []
        }

        private let asked: [CollectionName: Set<DocumentID>]
        private let hidden: [CollectionName: Set<DocumentID>]
        private let state = Mutex(State())

        init(of missing: MissingRevisions.Wanted) { (asked, hidden) = (missing.held.mapValues(Set.init), missing.hidden) }

        func note(_ collection: CollectionName, _ offered: [DocumentID]) {
            guard let asked = asked[collection] else { return }
            state.withLock { $0.ids[collection, default: []].formUnion(offered.filter(asked.contains)) }
        }

        /// In this collection, the peer's filter may have failed on documents that it did not offer.
        func note(filtered collection: CollectionName) { state.withLock { _ = $0.filtered.insert(collection) } }

        /// Whether the peer may have some of the documents although it did not offer them.
        var areUncertain: Bool {
            state.withLock { state in state.filtered.contains { !absent($0, state).isSubset(of: hidden[$0] ?? []) } }
        }

        /// The documents that the peer does not have, or does not let us see.
        func withdrawn(_ collection: CollectionName) -> [DocumentID] {
            state.withLock { state in
                let absent = absent(collection, state)
                return (state.filtered.contains(collection) ? absent.intersection(hidden[collection] ?? []) : absent).sorted()
            }
        }

        private func absent(_ collection: CollectionName, _ state: State) -> Set<DocumentID> {
            (asked[collection] ?? []).subtracting(state.ids[collection] ?? [])
        }
    }

    /// The documents that a connection could not obtain or store, although another one may.
    private final class Owed: Sendable {
        private struct State {
            var documents: [CollectionName: Set<DocumentID>] = [:]
            /// Set if space ran out: then other documents were not even requested.
            var ranOutOfSpace = false
        }

        private let state = Mutex(State())

        func note(_ events: [DocumentEvent]) {
            state.withLock { state in
                for event in events where event.direction == .pull {
                    guard let error = event.error, error.isTransient else { continue }
                    state.documents[event.collection, default: []].insert(event.id)
                    if error.isOutOfSpace { state.ranOutOfSpace = true }
                }
            }
        }

        var isEmpty: Bool { state.withLock { $0.documents.isEmpty } }

        /// Whether no document of the collection has to be requested again.
        func isSettled(_ collection: CollectionName) -> Bool { state.withLock { !$0.ranOutOfSpace && $0.documents[collection] == nil } }

        /// Those of the requested documents that need not be requested again.
        func settled(_ asked: [CollectionName: [DocumentID]]) -> [CollectionName: [DocumentID]] {
            state.withLock { state in
                if state.ranOutOfSpace { return [:] }
                var settled = asked
                for (collection, ids) in state.documents { settled[collection]?.removeAll { ids.contains($0) } }
                return settled
            }
        }
    }

    /// Documents that waited here for a blob, and that the remote did not offer when they were requested by name.
    private func forgetWithdrawn(_ collections: [CollectionName], _ offered: Offers, _ correlation: String?) async {
        let key = configuration.remoteKey
        for name in collections {
            let withdrawn = offered.withdrawn(name)
            guard !withdrawn.isEmpty, let collection = configuration.database.collection(name) else { continue }
            do {
                let forgotten = try await configuration.database.write { transaction -> [DocumentID] in
                    guard let remote = try transaction.existingRemote(for: key) else { return [] }
                    return try HeldRevisions.forgetWithdrawn(withdrawn, remote, collection, transaction)
                }
                guard !forgotten.isEmpty else { continue }
                let error = ReplicationError(
                    domain: .http, code: 404,
                    message: "the remote does not offer it any more: it was purged or has expired there, or this login may not read it; its revision that waited for "
                        + "a blob is no longer held here")
                tell(forgotten.map { DocumentEvent(id: $0, collection: name, direction: .pull, error: error) }, correlation)
            } catch { logger.warning("what the remote does not offer any more stays held: \(error)") }
        }
    }
}
