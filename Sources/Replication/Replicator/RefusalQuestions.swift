import DocumentStore
import Documents
import Interfaces

extension Replicator {
    /// A document that the peer refused, or that was refused here.
    public struct Refusal: Sendable, Equatable {
        public var collection: CollectionName
        public var id: DocumentID
        public var revision: RevisionID?
        /// The peer refused it if it was pushed, and this side if it was pulled.
        public var direction = Direction.push
        /// The error: its domain, code and message.
        public var domain: String
        public var code: Int
        public var reason: String
        public var tries: Int
        /// Seconds since 1970.
        public var since: Int64
        /// If the peer refused it because one of its versions is ahead of the clock: when it is offered again, in seconds since 1970.
        public var until: Int64?
    }

    /// Passes to `body`, page by page, all documents that the peer refused and that have not changed since.
    public nonisolated func forEachRefused(_ body: ([Refusal]) async throws -> Void) async throws {
        // Documents refused before the replicator became pull-only will not be offered again.
        guard configuration.type.pushes else { return }
        try await forEachRefused(.push, body)
    }

    /// The same for the documents of the remote that cannot be stored here, until they change there.
    public nonisolated func forEachNotTaken(_ body: ([Refusal]) async throws -> Void) async throws {
        guard configuration.type.pulls else { return }
        try await forEachRefused(.untaken, body)
    }

    private nonisolated func forEachRefused(_ direction: Exclusion.Direction, _ body: ([Refusal]) async throws -> Void) async throws {
        let database = configuration.database
        let key = configuration.remoteKey
        let now = UInt64(clamping: database.environment.time.wallNanoseconds())
        guard let remote = try await database.read({ try $0.existingRemote(for: key) }) else { return }
        for collection in configuration.collections.compactMap({ database.collection($0.collection) }) {
            var after: DocumentID?
            while true {
                let start = after
                let (last, rows) = try await database.read { transaction in
                    let rows = try transaction.exclusions(
                        collection, remote: remote, direction: direction, kind: .refused, after: start, limit: 1_000)
                    let owed = try rows.filter { try transaction.isOwed($0, collection) }
                    return (rows.last?.id, owed.map { ($0, direction == .push ? transaction.timeAwaited(by: $0, collection, now: now) : nil) })
                }
                guard let last else { break }
                after = last
                let page = rows.map { row, until in
                    Refusal(
                        collection: collection.name, id: row.id, revision: row.revision, direction: direction == .push ? .push : .pull, domain: row.plugin, code: Int(row.version) ?? 0,
                        reason: row.error, tries: row.tries, since: row.since, until: until)
                }
                if !page.isEmpty { try await body(page) }
            }
        }
    }

    /// The result of ``forEachRefused(_:)`` as one array.
    public nonisolated func refusedDocuments() async throws -> [Refusal] {
        var refused: [Refusal] = []
        try await forEachRefused { refused += $0 }
        return refused
    }

    /// The number of documents on the list.
    public nonisolated func refusedCount() async throws -> Int { try await refused().count }

    /// How many of them wait for a time, see ``Refusal/until``, and the latest of these times.
    public nonisolated func refusedUntil() async throws -> (count: Int, last: Int64?) {
        var (count, last): (Int, Int64?) = (0, nil)
        try await forEachRefused { page in
            for until in page.compactMap(\.until) { (count, last) = (count + 1, max(last ?? until, until)) }
        }
        return (count, last)
    }

    /// The number of documents on the list, and the time of the oldest.
    public nonisolated func refused() async throws -> Listed { try await listed(.refused, configuration.type.pushes ? [.push] : []) }

    /// The same for the documents of the remote that cannot be stored here.
    public nonisolated func notTaken() async throws -> Listed { try await listed(.refused, configuration.type.pulls ? [.untaken] : []) }

    /// The largest number of them that is listed for a collection.
    public nonisolated var notTakenLimit: Int { configuration.limits.notTakenDocuments }
}

extension Replicator {
    /// Offers again what the peer refused. False if there is no connection: the next one does so anyway.
    public func retryRefused() async -> Bool {
        for session in sessions { await session.retryRefused() }
        return !sessions.isEmpty
    }
}
