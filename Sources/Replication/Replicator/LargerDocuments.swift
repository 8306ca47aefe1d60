import Documents
import DocumentStore

/// What was too large for the settings here, and is not for those of now.
extension Replicator {
    private var bounds: TooLargeDocuments.Bounds { TooLargeDocuments.Bounds(memory, configuration.limits) }

    /// Has such documents asked for by name, when the pull has come to its end.
    func noteTooLarge() async {
        guard configuration.type.pulls else { return }
        let (key, bounds) = (configuration.remoteKey, bounds)
        for wanted in configuration.collections {
            guard let collection = configuration.database.collection(wanted.collection) else { continue }
            do {
                let due = try await configuration.database.read { transaction -> [DocumentID] in
                    guard let remote = try transaction.existingRemote(for: key) else { return [] }
                    return try TooLargeDocuments.due(bounds, remote, collection, transaction)
                }
                guard !due.isEmpty else { continue }
                let chosen = wanted.documentIDs.map { Set($0) }
                shared.withLock { $0.missing.note(tooLarge: due.filter { chosen?.contains($0) ?? true }, in: wanted.collection) }
            } catch { logger.debug("which documents were too large before is not known: \(error)") }
        }
    }

    /// They were asked for, and another connection would bring no more: those that are not noted anew are here, or are not to be had.
    func forgetTooLarge(_ asked: [CollectionName: [DocumentID]]) async {
        let (key, bounds) = (configuration.remoteKey, bounds)
        for (name, ids) in asked.sorted(by: { $0.key < $1.key }) {
            guard let collection = configuration.database.collection(name) else { continue }
            do {
                try await configuration.database.write { transaction in
                    guard let remote = try transaction.existingRemote(for: key) else { return }
                    try TooLargeDocuments.forget(ids, askedWith: bounds, remote, collection, transaction)
                }
            } catch { logger.warning("documents that were too large before will be asked for again: \(error)") }
        }
    }

    /// Asks for what is missing, where something is: the pull is over.
    nonisolated func fetchMissing() {
        guard shared.withLock({ !$0.missing.isEmpty }) else { return }
        environment.task { await self.hasFetchedMissing() }
    }
}
