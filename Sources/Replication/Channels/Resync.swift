import Documents
import DocumentStore
import Interfaces
import Logging

/// The result of judging stored documents again with a sync function.
public struct ResyncFigures: Sendable, Equatable {
    /// A document, and why it is reported.
    public struct Finding: Sendable, Equatable {
        public var id: DocumentID
        /// The function's message; empty if the document's channels or grants changed.
        public var error = ""
    }

    /// `resync_shown`: documents named in each list; the others are counted.
    public static let shown = 20

    /// Documents and tombstones examined.
    public var total = 0
    public var looked = 0
    /// In other channels, or with other grants.
    public var changed = 0
    /// Rejected: in no channel any more. These are not among the changed ones.
    public var refused = 0
    /// The function could not decide: these keep their channels.
    public var failed = 0
    public var changedFirst: [Finding] = []
    public var refusedFirst: [Finding] = []
    public var failedFirst: [Finding] = []

    public init() {}

    mutating func note(_ id: DocumentID, _ route: DocumentRoute, isChanged: Bool) {
        func add(_ count: inout Int, _ first: inout [Finding], _ error: String = "") {
            count += 1
            if first.count < Self.shown { first.append(Finding(id: id, error: error)) }
        }
        looked += 1
        if route.isFailed { return add(&failed, &failedFirst, route.error) }
        // A rejected document leaves its channels, which is said by that.
        if !route.error.isEmpty { return add(&refused, &refusedFirst, route.error) }
        if isChanged { add(&changed, &changedFirst) }
    }
}

/// Like Sync Gateway's `_resync`: a corrected function judges the stored documents.
extension ChannelRouter {
    public nonisolated var collectionName: CollectionName { collection.name }
    public nonisolated var databaseName: String { database.name }
    public nonisolated var plugin: (name: String, version: String) { (function.pluginName, function.version) }

    /// A document in channels assigned by another version of the function; nil if there is none.
    ///
    /// - Parameter start: where to start searching: no such document precedes it.
    public nonisolated func outdated(from start: DocumentID? = nil) async throws -> DocumentID? {
        let (collection, plugin) = (collection, plugin)
        var start = start
        while true {
            let page = try await database.read { [start] in try $0.routed(collection, notBy: plugin.name, version: plugin.version, from: start) }
            guard page.found == nil, let next = page.next else { return page.found }
            start = next
        }
    }

    /// Asks the function about the current revision of each document and tombstone, and moves those whose assignment changes, a few at a time, so
    /// that other writes can proceed in between. Documents that arrive in the meantime are judged by the same version on arrival.
    ///
    /// Rejected documents are in no channel afterwards. Those about which the function cannot decide keep theirs: otherwise a slip in the function
    /// would make peers purge what they hold.
    ///
    /// - Parameters:
    ///   - id: only this document.
    ///   - isTrial: write nothing.
    ///   - tell: called with the figures so far.
    /// - Returns: nil if another version took over: everything has to start over.
    /// - Throws: `CancellationError` if its task is cancelled; what was done by then remains.
    public nonisolated func resync(
        only id: DocumentID? = nil, isTrial: Bool = false, _ tell: @Sendable (ResyncFigures) async -> Void = { _ in }
    ) async throws -> ResyncFigures? {
        let (collection, version) = (collection, function.version)
        // Moved documents get sequences after this one.
        let end = try await database.read { try $0.lastSequence(collection) }
        var figures = ResyncFigures()
        let stored = try await database.statistics().first { $0.name == collection.name }
        figures.total = id == nil ? (stored?.documents ?? 0) + (stored?.deleted ?? 0) : 1
        var since: SequenceNumber = 0
        while true {
            let start = since
            let page = try await database.read { transaction in
                try transaction.changes(collection, since: start, limit: Self.batch, includeBodies: true, ids: id.map { [$0] })
            }
            guard let last = page.last else { return figures }
            since = last.sequence
            let documents = page.filter { $0.sequence <= end }.map {
                PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body ?? [])
            }
            let routes = await function.routes(of: documents, context)
            // The answer of a function that is being stopped is not a verdict.
            try Task.checkCancellation()
            guard function.version == version else { return nil }
            for (document, route) in routes where route.isFailed && !isTrial {
                logger.warning("document \(document.id) keeps its channels, for sync failed: \(route.error)", metadata: ["plugin": "\(route.plugin)"])
            }
            let changed = try await isTrial ? compare(routes) : store(routes)
            for (document, route) in routes { figures.note(document.id, route, isChanged: changed.contains(document.id)) }
            await tell(figures)
            if since >= end { return figures }
        }
    }

    private nonisolated func compare(_ routes: [(PolicyDocument, DocumentRoute)]) async throws -> Set<DocumentID> {
        let collection = collection
        return try await database.read { transaction in
            var changed: Set<DocumentID> = []
            for (document, route) in routes where !route.isFailed {
                if try transaction.differs(collection, document.id, document.revision, from: route) == true { changed.insert(document.id) }
            }
            return changed
        }
    }

    private nonisolated func store(_ routes: [(PolicyDocument, DocumentRoute)]) async throws -> Set<DocumentID> {
        let collection = collection
        return try await database.write { transaction in
            var changed: Set<DocumentID> = []
            for (document, route) in routes where !route.isFailed {
                if try transaction.reroute(collection, document.id, document.revision, route) { changed.insert(document.id) }
            }
            if !changed.isEmpty { try transaction.signalChange(collection) }
            return changed
        }
    }
}
