import Documents
import DocumentStore

/// Documents that were too large for earlier settings, and fit the current ones.
extension Replicator {
    nonisolated var bounds: TooLargeDocuments.Bounds { TooLargeDocuments.Bounds(memory, configuration.limits) }

    /// Documents of the remote that were too large when they arrived, and have not been requested since. One that has become smaller there may be
    /// here by now.
    public struct TooLarge: Sendable, Equatable {
        /// One of them, by name.
        public struct Example: Sendable, Equatable {
            public var collection: CollectionName
            public var id: DocumentID
        }

        public var count = 0
        /// How many more there are that the limits may allow now: they are requested again once everything else is here.
        public internal(set) var awaited = 0
        /// There are more, whose ids are not recorded. They are requested again as well.
        public var isCapped = false
        public internal(set) var example: Example?
        /// The least `limits.memory`, in bytes, with which all would be taken for which it is known.
        public internal(set) var neededMemory: Int?

        public init(count: Int = 0, isCapped: Bool = false) { (self.count, self.isCapped) = (count, isCapped) }
    }

    /// Such documents.
    public nonisolated func tooLarge() async throws -> TooLarge {
        guard configuration.type.pulls else { return TooLarge() }
        let (key, database, bounds) = (configuration.remoteKey, configuration.database, bounds)
        let collections = configuration.collections.compactMap { database.collection($0.collection) }
        return try await database.read { transaction -> TooLarge in
            var found = TooLarge()
            guard let remote = try transaction.existingRemote(for: key) else { return found }
            for collection in collections {
                let noted = try TooLargeDocuments.noted(remote, collection, transaction)
                // What earlier settings did not allow is not told as if it were still so.
                let left = noted.documents.filter { !bounds.mayTake($0.value, needed: noted.needed[$0.key]) }
                found.count += left.count
                found.awaited += noted.documents.count - left.count
                if found.example == nil, let id = left.keys.min() { found.example = TooLarge.Example(collection: collection.name, id: id) }
                found.neededMemory = [found.neededMemory, left.keys.compactMap { noted.needed[$0] }.max()].compactMap(\.self).max()
                if noted.unnamed.contains(where: { !bounds.allowMore(than: $0.bounds) }) { found.isCapped = true }
            }
            return found
        }
    }

    /// One such document.
    public struct TooLargeDocument: Sendable, Equatable {
        public var collection: CollectionName
        public var id: DocumentID
        /// `limits.memory`, in bytes, when it came.
        public var memory: Int
        /// The one with which it would be taken; nil if that is not known, or `max_document_bytes` is less than it has.
        public var needed: Int?
    }

    /// Those whose ids are recorded, by collection and id.
    public nonisolated func tooLargeDocuments() async throws -> [TooLargeDocument] {
        guard configuration.type.pulls else { return [] }
        let (key, database, bounds) = (configuration.remoteKey, configuration.database, bounds)
        let collections = configuration.collections.compactMap { database.collection($0.collection) }
        return try await database.read { transaction -> [TooLargeDocument] in
            guard let remote = try transaction.existingRemote(for: key) else { return [] }
            var found: [TooLargeDocument] = []
            for collection in collections {
                let noted = try TooLargeDocuments.noted(remote, collection, transaction)
                for (id, noticed) in noted.documents.sorted(by: { $0.key < $1.key }) where !bounds.mayTake(noticed, needed: noted.needed[id]) {
                    found.append(TooLargeDocument(collection: collection.name, id: id, memory: noticed.memory, needed: noted.needed[id]))
                }
            }
            return found
        }
    }

    /// Schedules these documents to be requested when the pull is complete: by id, or, if their ids are not recorded, by reading the remote's changes
    /// again.
    ///
    /// Higher limits take effect only when the agent starts, and therefore with a new connection.
    func noteTooLarge() async {
        guard configuration.type.pulls else { return }
        let (key, bounds) = (configuration.remoteKey, bounds)
        for wanted in configuration.collections {
            guard let collection = configuration.database.collection(wanted.collection) else { continue }
            do {
                let due = try await configuration.database.read { transaction -> TooLargeDocuments.Due in
                    guard let remote = try transaction.existingRemote(for: key) else { return TooLargeDocuments.Due() }
                    return try TooLargeDocuments.due(bounds, remote, collection, transaction)
                }
                guard due != TooLargeDocuments.Due() else { continue }
                let chosen = wanted.documentIDs.map { Set($0) }
                shared.withLock {
                    $0.missing.note(tooLarge: due.documents.filter { chosen?.contains($0) ?? true }, in: wanted.collection)
                    if let rereading = due.rereading { $0.missing.note(rereading, of: wanted.collection) }
                }
            } catch { logger.debug("which documents were too large before is not known: \(error)") }
        }
    }

    /// They were requested, and another connection would get no more: those not noted again are here, or cannot be obtained.
    func forgetTooLarge(_ asked: [CollectionName: [DocumentID]]) async {
        let bounds = bounds
        for (name, ids) in asked.sorted(by: { $0.key < $1.key }) {
            await forgetTooLarge(name) { try TooLargeDocuments.forget(ids, askedWith: bounds, $0, $1, $2) }
        }
    }

    /// The remote's changes of these collections were read again, and everything in them is here, or cannot be obtained.
    func forgetUnnamed(_ reread: [CollectionName]) async {
        let bounds = bounds
        for name in reread.sorted() {
            await forgetTooLarge(name) { try TooLargeDocuments.forgetUnnamed(rereadWith: bounds, $0, $1, $2) }
        }
    }

    private func forgetTooLarge(_ name: CollectionName, _ forget: @escaping @Sendable (RemoteID, Collection, WriteTransaction) throws -> Void) async {
        let key = configuration.remoteKey
        guard let collection = configuration.database.collection(name) else { return }
        do {
            try await configuration.database.write { transaction in
                guard let remote = try transaction.existingRemote(for: key) else { return }
                try forget(remote, collection, transaction)
            }
        } catch { logger.warning("documents that were too large before will be asked for again: \(error)") }
    }

    /// Requests what is missing, if anything is: the pull is complete.
    nonisolated func fetchMissing() {
        guard shared.withLock({ !$0.missing.isEmpty }) else { return }
        environment.task { await self.hasFetchedMissing() }
    }
}
