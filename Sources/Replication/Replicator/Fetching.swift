import Documents
import Interfaces

/// Connections beside the one that replicates.
extension Replicator {
    /// Asks once more, by name, for documents whose revision at the peer is not here although the pull is over. One attempt at a
    /// time; false where there was nothing to ask for.
    @discardableResult
    func hasFetchedMissing() async -> Bool {
        if let fetcher { return await fetcher.value }
        let missing = shared.withLock { $0.missing.take() }
        guard !missing.isEmpty, !isStopping else { return false }
        let task = environment.task { await self.fetch(missing) }
        fetcher = task
        let isDone = await task.value
        fetcher = nil
        return isDone
    }

    private func fetch(_ missing: [CollectionName: [DocumentID]]) async -> Bool {
        guard let transport = try? await connector.connect() else { return false }
        guard !isStopping else {
            transport.drop()
            return false
        }
        var only = configuration
        (only.type, only.isContinuous) = (.pull, false)
        only.collections = configuration.collections.compactMap { wanted in
            guard let ids = missing[wanted.collection] else { return nil }
            var wanted = wanted
            wanted.documentIDs = ids
            return wanted
        }
        let counters = ReplicationCounters()
        let active = ActiveConfiguration(replicator: only, resets: true, startsLegacy: speaksLegacy, savesCheckpoint: false)
        let end = await replicate(over: transport, active, counters, correlation: transport.correlationID)
        shared.withLock { $0.counters.add(counters.snapshot) }
        return end.error == nil
    }
}
