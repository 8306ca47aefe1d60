import DocumentStore
import Documents
import Interfaces

/// What a replicator still has to do, and what it could not do. Answered from the database, whether it runs or not.
extension Replicator {
    /// How many documents wait to be pushed.
    public struct Pending: Sendable, Equatable {
        public var count = 0
        /// Counting stopped there; there are, or may be, more.
        public var isCapped = false
        /// Size of the counted documents' bodies, without blobs, in bytes.
        public var bytes = 0
        /// A time by which the oldest of them had been written, in seconds since 1970; nil if nothing is waiting, or it has just been written.
        public var oldest: Int64?

        public init(count: Int = 0, isCapped: Bool = false, bytes: Int = 0, oldest: Int64? = nil) {
            self.count = count
            self.isCapped = isCapped
            self.bytes = bytes
            self.oldest = oldest
        }

        fileprivate mutating func add(_ rows: [ChangeRow], oldest sequence: inout SequenceNumber?) {
            count += rows.count
            bytes += rows.reduce(0) { $0 + $1.bodySize }
            if let first = rows.map(\.sequence).min() { sequence = min(sequence ?? first, first) }
        }
    }

    /// A document that waits to be pushed.
    public struct PendingDocument: Sendable {
        public var collection: CollectionName
        public var id: DocumentID
        /// A time by which it had been written, in seconds since 1970; nil if it has just been written.
        public var since: Int64?
        /// The plugin of the push filter that rejects it now, although no connection has asked it yet; nil if it is to be sent.
        public var rejectedBy: String?
        /// Its conflict waits for a decision, and nothing of it is sent before that.
        package var isUndecided = false
    }

    /// `pending_limit`: the pending documents of a collection are counted up to this number, so that querying the status stays cheap.
    static let pendingLimit = 10_000
    /// `pending_rows`: the number of rows examined for that, including those that the remote is known to have: after a reset these may be all.
    static let pendingRows = 50_000
    private static let page = 1_000

    /// Passes to `body`, page by page, all documents that wait to be pushed, including tombstones: newer than the checkpoint, or rejected by a
    /// version of the push filter no longer in force; and not known to be at the remote. Those that the push filter rejects now are among them, and
    /// say so: they are counted by ``pendingEstimate()`` until a connection has looked at them.
    public nonisolated func forEachPending(_ body: ([PendingDocument]) async throws -> Void) async throws {
        try await forEachPendingPage { documents in
            try await body(documents)
            return true
        }
    }

    /// Whether a document waits that the push filter does not reject. The filter is asked page by page, up to the first such document; where it has
    /// rejected ``pendingLimit`` documents, further ones are taken to be such.
    ///
    /// - Throws: ``StoreError``.
    package nonisolated func owesPeer() async throws -> Bool {
        var (rejected, owes) = (0, false)
        try await forEachPendingPage { documents in
            rejected += documents.count
            owes = rejected > Self.pendingLimit || documents.contains { $0.rejectedBy == nil }
            return !owes
        }
        return owes
    }

    /// - Parameter body: returns whether to continue.
    private nonisolated func forEachPendingPage(_ body: ([PendingDocument]) async throws -> Bool) async throws {
        guard configuration.type.pushes else { return }
        let database = configuration.database
        for wanted in configuration.collections {
            guard let collection = database.collection(wanted.collection) else { continue }
            let id = configuration.checkpointID(of: wanted, privateUUID: database.privateUUID)
            let key = configuration.remoteKey
            let (start, remote) = try await database.read { transaction in
                let body = try transaction.checkpoint(id: id, collection: collection)?.body
                return (body.map { CheckpointBody(parsing: $0).local } ?? 0, try transaction.existingRemote(for: key))
            }
            for ids in Self.parts(of: wanted.documentIDs) {
                var cursor = start
                while true {
                    let since = cursor
                    let rows = try await database.read {
                        try $0.changes(
                            collection, since: since, limit: 200, includeBodies: wanted.pushFilter != nil, ids: ids, remote: remote)
                    }
                    guard let last = rows.last else { break }
                    cursor = last.sequence
                    let open = try await dated(remainingToPush(rows, wanted), in: collection)
                    if !open.isEmpty, try await !body(open) { return }
                }
            }
            var goesOn = true
            try await forEachOutdated(wanted, collection, through: start, includeBodies: wanted.pushFilter != nil) { rows in
                let open = try await dated(remainingToPush(rows, wanted), in: collection)
                if !open.isEmpty { goesOn = try await body(open) }
                return goesOn
            }
            guard goesOn else { return }
        }
    }

    private nonisolated func dated(_ open: [JudgedRow], in collection: Collection) async throws -> [PendingDocument] {
        try await configuration.database.read { transaction in
            try open.map { judged in
                PendingDocument(
                    collection: collection.name, id: judged.row.id, since: try transaction.changedBy(judged.row.sequence, in: collection),
                    rejectedBy: judged.rejectedBy, isUndecided: judged.row.hasConflict)
            }
        }
    }

    /// A hundred thousand configured ids are not looked up again for each page.
    private static func parts(of ids: [DocumentID]?) -> [[DocumentID]?] {
        guard let ids, ids.count > page else { return [ids] }
        return stride(from: 0, to: ids.count, by: page).map { Array(ids[$0..<min($0 + page, ids.count)]) }
    }

    /// Whether a document is one of those of ``forEachPending(_:)`` and is not rejected by the push filter. One look-up, however many are waiting.
    ///
    /// - Throws: ``StoreError``.
    public nonisolated func isPending(_ id: DocumentID, in name: CollectionName) async throws -> Bool {
        try await pendingDocument(id, in: name).map { $0.rejectedBy == nil } ?? false
    }

    /// The document of ``forEachPending(_:)`` with this id, without its time; nil if it is none of them.
    ///
    /// - Throws: ``StoreError``.
    package nonisolated func pendingDocument(_ id: DocumentID, in name: CollectionName) async throws -> PendingDocument? {
        let database = configuration.database
        guard configuration.type.pushes, let wanted = configuration.collections.first(where: { $0.collection == name }),
            let collection = database.collection(name), wanted.documentIDs?.contains(id) ?? true
        else { return nil }
        let checkpoint = configuration.checkpointID(of: wanted, privateUUID: database.privateUUID)
        let key = configuration.remoteKey
        var row = try await database.read { transaction -> ChangeRow? in
            let body = try transaction.checkpoint(id: checkpoint, collection: collection)?.body
            let since = body.map { CheckpointBody(parsing: $0).local } ?? 0
            return try transaction.changes(
                collection, since: since, limit: 1, includeBodies: wanted.pushFilter != nil, ids: [id], remote: transaction.existingRemote(for: key)
            ).first
        }
        if row == nil { row = try await outdated(id, wanted, collection) }
        let open = await remainingToPush(row.map { [$0] } ?? [], wanted)
        return open.first.map { PendingDocument(collection: name, id: id, since: nil, rejectedBy: $0.rejectedBy) }
    }

    /// Passes to `body`, page by page, the documents of which nothing is pushed because their conflict waits for its decision, and whose revision here the
    /// remote is not known to have. They do not count as pending: the decision makes a revision that does.
    ///
    /// - Parameter id: only this document, in this collection.
    package nonisolated func forEachUndecided(
        only id: (CollectionName, DocumentID)? = nil, _ body: ([(collection: CollectionName, conflict: PendingConflict)]) async throws -> Void
    ) async throws {
        guard configuration.type.pushes else { return }
        let key = configuration.remoteKey
        for wanted in configuration.collections where id == nil || id?.0 == wanted.collection {
            guard let collection = configuration.database.collection(wanted.collection) else { continue }
            var after: DocumentID?
            while true {
                let (start, only) = (after, id?.1)
                let (last, open) = try await configuration.database.read { transaction -> (DocumentID?, [PendingConflict]) in
                    let page =
                        if let only { try transaction.pendingConflict(collection, only).map { [$0] } ?? [] } else {
                            try transaction.pendingConflicts(collection, after: start, limit: 200)
                        }
                    let remote = try transaction.existingRemote(for: key)
                    var open: [PendingConflict] = []
                    for conflict in page where wanted.documentIDs?.contains(conflict.id) ?? true {
                        let row = try transaction.changes(collection, since: 0, limit: 1, includeBodies: false, ids: [conflict.id], remote: remote).first
                        if let row, row.remoteRevision != row.revision { open.append(conflict) }
                    }
                    return (only == nil ? page.last?.id : nil, open)
                }
                if !open.isEmpty { try await body(open.map { (wanted.collection, $0) }) }
                guard let last else { break }
                after = last
            }
        }
    }

    private struct JudgedRow: Sendable {
        var row: ChangeRow
        var rejectedBy: String?
    }

    /// Of rows newer than the checkpoint, those that are not known to be at the remote, with what the push filter says. A document on which the
    /// filter or the transform failed is still to be pushed: nothing has decided that it should stay.
    private nonisolated func remainingToPush(_ rows: [ChangeRow], _ wanted: CollectionReplication) async -> [JudgedRow] {
        let open = rows.filter { $0.remoteRevision != $0.revision }
        guard let filter = wanted.pushFilter, !open.isEmpty else { return open.map { JudgedRow(row: $0) } }
        let context = PolicyContext(
            database: configuration.database.name, collection: wanted.collection, direction: .push, replicator: configuration.name,
            remote: configuration.shownTarget)
        let verdicts = await filter.verdicts(
            open.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body ?? []) }, context)
        return zip(open, verdicts).map { JudgedRow(row: $0, rejectedBy: $1 == .reject ? filter.pluginName : nil) }
    }

    /// The result of ``forEachPending(_:)`` as one array, without what the push filter rejects. For tests.
    package nonisolated func pendingDocumentIDs() async throws -> [(CollectionName, DocumentID)] {
        var pending: [(CollectionName, DocumentID)] = []
        try await forEachPending { page in pending += page.filter { $0.rejectedBy == nil }.map { ($0.collection, $0.id) } }
        return pending
    }

    /// How many sequences are newer than what has been pushed, or were rejected by a version of the filter no longer in force: those of
    /// ``forEachPending(_:)``. Cheap enough for every status query, because no filter is asked.
    public nonisolated func pendingEstimate() async throws -> Pending { try await pendingEstimate(rows: Self.pendingRows) }

    /// - Parameter rows: maximum number of rows examined per collection.
    nonisolated func pendingEstimate(rows: Int) async throws -> Pending {
        var pending = Pending()
        guard configuration.type.pushes else { return pending }
        for wanted in configuration.collections {
            guard let collection = configuration.database.collection(wanted.collection) else { continue }
            let one = try await pendingCount(wanted, collection, rows)
            pending.count += one.count
            pending.isCapped = pending.isCapped || one.isCapped
            pending.bytes += one.bytes
            pending.oldest = [pending.oldest, one.oldest].compactMap(\.self).min()
        }
        return pending
    }

    /// Whether anything newer than the checkpoint may still have to be pushed, judging by the first page. Cheap enough to call every few seconds.
    package nonisolated func mayHavePending() async throws -> Bool {
        guard configuration.type.pushes else { return false }
        let database = configuration.database
        let key = configuration.remoteKey
        for wanted in configuration.collections {
            guard let collection = database.collection(wanted.collection) else { continue }
            let id = configuration.checkpointID(of: wanted, privateUUID: database.privateUUID)
            let ids = wanted.documentIDs.flatMap { $0.count > Self.page ? nil : $0 }
            let rows = try await database.read { transaction -> [ChangeRow] in
                let start = try transaction.checkpoint(id: id, collection: collection).map { CheckpointBody(parsing: $0.body).local } ?? 0
                guard try transaction.lastSequence(collection) > start else { return [] }
                return try transaction.changes(
                    collection, since: start, limit: Self.page, includeBodies: false, ids: ids, remote: transaction.existingRemote(for: key))
            }
            if rows.count == Self.page || rows.contains(where: { $0.remoteRevision != $0.revision }) { return true }
        }
        return false
    }

    private nonisolated func pendingCount(_ wanted: CollectionReplication, _ collection: Collection, _ rows: Int) async throws -> Pending {
        var oldest: SequenceNumber?
        var pending = try await pendingRows(wanted, collection, rows, oldest: &oldest)
        if pending.count > Self.pendingLimit {
            pending.count = Self.pendingLimit
            pending.isCapped = true
        }
        if let oldest { pending.oldest = try await configuration.database.read { try $0.changedBy(oldest, in: collection) } }
        return pending
    }

    private nonisolated func pendingRows(
        _ wanted: CollectionReplication, _ collection: Collection, _ limit: Int, oldest: inout SequenceNumber?
    ) async throws -> Pending {
        let database = configuration.database
        let id = configuration.checkpointID(of: wanted, privateUUID: database.privateUUID)
        let key = configuration.remoteKey
        let start = try await database.read { transaction in
            try transaction.checkpoint(id: id, collection: collection).map { CheckpointBody(parsing: $0.body).local } ?? 0
        }
        var pending = Pending()
        var looked = 0
        for ids in Self.parts(of: wanted.documentIDs) {
            var since = start
            // One read per page, so that others who need a reader of the database wait for one page only.
            while true {
                let from = since
                let page = try await database.read { transaction -> [ChangeRow] in
                    guard try transaction.lastSequence(collection) > from else { return [] }
                    return try transaction.changes(
                        collection, since: from, limit: Self.page, includeBodies: false, ids: ids, remote: transaction.existingRemote(for: key))
                }
                guard let last = page.last else { break }
                since = last.sequence
                pending.add(page.filter { $0.remoteRevision != $0.revision }, oldest: &oldest)
                looked += page.count
                if pending.count > Self.pendingLimit { return pending }
                if looked >= limit {
                    pending.isCapped = true
                    return pending
                }
            }
        }
        var (outdated, oldestOutdated) = (Pending(), oldest)
        let counted = pending.count
        try await forEachOutdated(wanted, collection, through: start, includeBodies: false) { rows in
            outdated.add(rows, oldest: &oldestOutdated)
            return counted + outdated.count <= Self.pendingLimit
        }
        oldest = oldestOutdated
        pending.count += outdated.count
        pending.bytes += outdated.bytes
        return pending
    }

    /// Passes to `body`, page by page, all documents held in either direction because a filter failed, they are too large, or a blob cannot be
    /// obtained or sent.
    public nonisolated func forEachHeld(_ body: ([(CollectionName, Exclusion)]) async throws -> Void) async throws {
        let database = configuration.database
        let key = configuration.remoteKey
        guard let remote = try await database.read({ try $0.existingRemote(for: key) }) else { return }
        for collection in configuration.collections.compactMap({ database.collection($0.collection) }) {
            for direction in directions {
                var after: DocumentID?
                while true {
                    let start = after
                    let (last, rows) = try await database.read { transaction in
                        let rows = try transaction.exclusions(
                            collection, remote: remote, direction: direction, kind: .held, after: start, limit: Self.page)
                        return (rows.last?.id, try rows.filter { try transaction.isOwed($0, collection) })
                    }
                    guard let last else { break }
                    after = last
                    if !rows.isEmpty { try await body(rows.map { (collection.name, $0) }) }
                }
            }
        }
    }

    /// The result of ``forEachHeld(_:)`` as one array.
    public nonisolated func heldDocuments() async throws -> [(CollectionName, Exclusion)] {
        var held: [(CollectionName, Exclusion)] = []
        try await forEachHeld { held += $0 }
        return held
    }

    /// The number of held documents.
    public nonisolated func heldCount() async throws -> Int { try await held().count }

    /// The number of held documents, and the oldest of them.
    ///
    /// - Parameters:
    ///   - cause: only documents held for this cause.
    ///   - direction: only documents held in this direction.
    public nonisolated func held(by cause: Exclusion.Cause? = nil, _ direction: Exclusion.Direction? = nil) async throws -> Listed {
        try await listed(.held, directions.filter { direction == nil || $0 == direction }, by: cause)
    }

    /// A summary of the documents on a list.
    public struct Listed: Sendable, Equatable {
        public var count = 0
        /// Seconds since 1970.
        public var oldest: Int64?
        /// The one that has been on the list the longest, with its error.
        public var example: Example?

        public struct Example: Sendable, Equatable {
            public var collection: CollectionName
            public var id: DocumentID
            public var error: String
        }
    }

    /// The directions in which this replicator moves documents. Entries of other directions, from before its type was changed, are ignored.
    private nonisolated var directions: [Exclusion.Direction] {
        (configuration.type.pushes ? [.push] : []) + (configuration.type.pulls ? [.pull] : [])
    }

    /// The number of documents on a list, over all collections.
    nonisolated func listed(_ kind: Exclusion.Kind, _ directions: [Exclusion.Direction], by cause: Exclusion.Cause? = nil) async throws -> Listed {
        let key = configuration.remoteKey
        let names = configuration.collections.compactMap { configuration.database.collection($0.collection) }
        guard !directions.isEmpty else { return Listed() }
        return try await configuration.database.read { transaction in
            guard let remote = try transaction.existingRemote(for: key) else { return Listed() }
            return try names.reduce(into: Listed()) { all, collection in
                let one = try transaction.exclusionAge(collection, remote: remote, kind: kind, directions: directions, by: cause)
                var (count, oldest) = (one.count, one.oldest)
                if count > 0, count <= Self.page {
                    // As listed, which leaves out settled ones.
                    let owed = try directions.flatMap {
                        try transaction.exclusions(collection, remote: remote, direction: $0, kind: kind, after: nil, limit: Self.page)
                    }.filter { try (cause ?? $0.cause) == $0.cause && transaction.isOwed($0, collection) }
                    count = owed.count
                    oldest = owed.min { $0.since < $1.since }.map { ($0.since, $0.id, $0.error) }
                }
                all.count += count
                guard let first = oldest, all.oldest.map({ first.since < $0 }) ?? true else { return }
                all.oldest = first.since
                all.example = Listed.Example(collection: collection.name, id: first.id, error: first.error)
            }
        }
    }
}
