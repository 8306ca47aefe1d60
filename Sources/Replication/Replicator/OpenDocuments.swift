import Documents
import DocumentStore
import Interfaces

/// What a replicator has still to do, as the store knows it; no connection is needed for the answers.
struct OpenDocuments: Sendable {
    let configuration: ReplicatorConfiguration

    /// Documents that wait to be pushed, tombstones included: newer than the checkpoint, not known to be at the remote, and
    /// passed by the push filter.
    ///
    /// - Parameter limit: no more than this many ids are given.
    func pendingDocumentIDs(limit: Int) async throws -> [(CollectionName, DocumentID)] {
        guard configuration.type.pushes else { return [] }
        let database = configuration.database
        var pending: [(CollectionName, DocumentID)] = []
        for wanted in configuration.collections {
            guard let collection = database.collection(wanted.collection) else { continue }
            let id = ReplicationSession.checkpointID(configuration, wanted, privateUUID: database.privateUUID)
            let key = configuration.remoteKey
            let (start, remote) = try await database.read { transaction in
                let body = try transaction.checkpoint(id: id, collection: collection)?.body
                return (body.map { CheckpointBody(parsing: $0).local } ?? 0, try transaction.existingRemote(for: key))
            }
            var cursor = start
            while pending.count < limit {
                let since = cursor
                let ids = wanted.documentIDs
                let rows = try await database.read {
                    try $0.changes(
                        collection, since: since, limit: 200, includeBodies: wanted.pushFilter != nil, ids: ids, remote: remote)
                }
                guard let last = rows.last else { break }
                cursor = last.sequence
                var open = rows.filter { $0.remoteRevision != $0.revision }
                if let filter = wanted.pushFilter, !open.isEmpty {
                    let context = PolicyContext(
                        database: database.name, collection: wanted.collection, direction: .push, replicator: configuration.name,
                        remote: configuration.target)
                    let verdicts = await filter.evaluate(
                        open.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body ?? []) },
                        context)
                    open = zip(open, verdicts).filter { $0.1 == .pass }.map(\.0)
                }
                pending += open.prefix(limit - pending.count).map { (wanted.collection, $0.id) }
            }
        }
        return pending
    }

    /// How many sequences are newer than what has been pushed: cheap enough for every look at the status. Counts
    /// tombstones, and documents that a filter will keep back.
    ///
    /// - Returns: no more than ``pendingLimit`` a collection.
    func pendingEstimate() async throws -> Int {
        guard configuration.type.pushes else { return 0 }
        var count = 0
        for wanted in configuration.collections {
            guard let collection = configuration.database.collection(wanted.collection) else { continue }
            count += try await pendingCount(wanted, collection, limit: Replicator.pendingLimit)
        }
        return count
    }

    private func pendingCount(_ wanted: CollectionReplication, _ collection: Collection, limit: Int) async throws -> Int {
        let database = configuration.database
        let id = ReplicationSession.checkpointID(configuration, wanted, privateUUID: database.privateUUID)
        let key = configuration.remoteKey
        let ids = wanted.documentIDs
        return try await database.read { transaction in
            let body = try transaction.checkpoint(id: id, collection: collection)?.body
            var since = body.map { CheckpointBody(parsing: $0).local } ?? 0
            guard try transaction.lastSequence(collection) > since else { return 0 }
            let remote = try transaction.existingRemote(for: key)
            var count = 0
            while count < limit {
                let rows = try transaction.changes(collection, since: since, limit: 1_000, includeBodies: false, ids: ids, remote: remote)
                guard let last = rows.last else { break }
                since = last.sequence
                count += rows.count { $0.remoteRevision != $0.revision }
            }
            return count
        }
    }

    /// Documents that are held because a filter failed, both directions.
    func heldDocuments(limit: Int) async throws -> [(CollectionName, Exclusion)] {
        let database = configuration.database
        let key = configuration.remoteKey
        let names = configuration.collections.compactMap { database.collection($0.collection) }
        return try await database.read { transaction in
            guard let remote = try transaction.existingRemote(for: key) else { return [] }
            var held: [(CollectionName, Exclusion)] = []
            for collection in names {
                held += try transaction.exclusions(collection, remote: remote, kind: .held, limit: limit).map { (collection.name, $0) }
            }
            return held
        }
    }
}
