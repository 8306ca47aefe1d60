import Documents
import DocumentStore
import Interfaces
import Synchronization

/// Documents that the push filter of a listener has kept from its peers.
///
/// A feed that has passed a document does not return to it, and a listener knows nothing about its peers except what they ask. So a document that the
/// filter keeps back is put on a list before anybody is told about later ones. When another version of the filter comes into force, the documents on
/// the list move to new sequences (see ``review(_:in:isStart:)``): each peer encounters them there, and takes what is new to it.
///
/// The list is shared by all peers: a document is on it as soon as it was kept from one of them. A peer that has it already answers so.
public final class KeptFromPeers: Sendable {
    /// `held_documents_named`: documents named for the operator; any others are only on the list.
    static let named = 1_000

    private struct Place: Hashable {
        var database: String
        var collection: CollectionName
        var id: DocumentID
    }

    private struct Held {
        var failure: PolicyFailure
        var revision: RevisionID
        /// The filter may fail for a single peer only.
        var context: PolicyContext
    }

    let listener: String
    private let onHeld: @Sendable (Stall) -> Void
    /// The listed documents on which the filter failed, since the listener was opened.
    private let held = Mutex<[Place: Held]>([:])
    private let watchers = Mutex<(last: Int, streams: [Int: AsyncStream<Void>.Continuation])>((0, [:]))

    /// - Parameter onHeld: called for each document on which the filter newly fails.
    public init(listener: String, onHeld: @escaping @Sendable (Stall) -> Void = { _ in }) {
        self.listener = listener
        self.onHeld = onHeld
    }

    /// No target of a replicator can look like this.
    static func key(_ listener: String) -> String { keyPrefix + listener }
    static let keyPrefix = "listener "

    /// Documents on which the filter failed and that were left out of feeds, by database.
    public var heldDocuments: [(database: String, stall: Stall)] {
        held.withLock { $0.map { ($0.key, $0.value.failure) } }
            .sorted { ($0.0.database, $0.0.collection, $0.0.id) < ($1.0.database, $1.0.collection, $1.0.id) }
            .map { ($0.0.database, Stall(collection: $0.0.collection, id: $0.0.id, failure: $0.1)) }
    }

    /// Whether documents of a database were left out of feeds because the filter failed on them.
    func isHolding(any database: String) -> Bool { held.withLock { $0.keys.contains { $0.database == database } } }

    /// Yields each time the filter newly fails on documents, of whatever database.
    func failures() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = watchers.withLock { watchers in
            watchers.last += 1
            watchers.streams[watchers.last] = continuation
            return watchers.last
        }
        continuation.onTermination = { [weak self] _ in self?.watchers.withLock { _ = $0.streams.removeValue(forKey: number) } }
        return stream
    }

    /// Why a document is left out of feeds.
    public func failure(of id: DocumentID, in collection: CollectionName, database: String) -> PolicyFailure? {
        held.withLock { $0[Place(database: database, collection: collection, id: id)]?.failure }
    }

    // MARK: - Asking

    /// Asks a push filter about documents of a peer's feed. Documents that it keeps back are on the list when this returns.
    ///
    /// - Parameter listsFailures: also list documents on which it fails, for feeds that skip these.
    /// - Throws: ``StoreError``.
    package func verdicts(
        of documents: [PolicyDocument], _ filter: any DocumentFilter, _ context: PolicyContext, _ database: Database, _ collection: Collection,
        listsFailures: Bool
    ) async throws -> [FilterVerdict] {
        while true {
            let version = filter.version
            let verdicts = await filter.allVerdicts(documents, context)
            forgetChanged(zip(documents, verdicts), database.name, collection.name)
            let judgedBy = JudgedBy(plugin: filter.pluginName, version: version)
            try await list(documents, verdicts, judgedBy, context, database, collection, listsFailures: listsFailures)
            // A version that came into force in the meantime has already reviewed the list, possibly without these.
            if filter.version == version { return verdicts }
        }
    }

    private struct JudgedBy {
        var plugin: String
        var version: String
    }

    private struct Kept: Sendable {
        var id: DocumentID
        /// Set if the filter failed on it: a later revision is judged separately.
        var revision: RevisionID?
        var failure: PolicyFailure?
    }

    private func list(
        _ documents: [PolicyDocument], _ verdicts: [FilterVerdict], _ judgedBy: JudgedBy, _ context: PolicyContext, _ database: Database,
        _ collection: Collection, listsFailures: Bool
    ) async throws {
        let kept = zip(documents, verdicts).compactMap { document, verdict -> Kept? in
            switch verdict {
            case .pass, .replace: nil
            case .reject: Kept(id: document.id)
            case .failed(let failure): listsFailures ? Kept(id: document.id, revision: document.revision, failure: failure) : nil
            }
        }
        if kept.isEmpty { return }
        let (key, plugin, version) = (Self.key(listener), judgedBy.plugin, judgedBy.version)
        // Most of them are already on the list because of another peer, and looking is cheaper than writing.
        let news = try await database.read { transaction -> [Kept] in
            guard let remote = try transaction.existingRemote(for: key) else { return kept }
            return try kept.filter { each in
                guard let known = try transaction.exclusion(collection, remote: remote, direction: .push, id: each.id) else { return true }
                // An entry of another version is about to be reviewed, and must not be overwritten.
                guard known.plugin == plugin, known.version == version else { return false }
                return each.failure != nil && (known.kind != .held || known.revision != each.revision)
            }
        }
        if !news.isEmpty {
            try await database.write { transaction in
                let remote = try transaction.remoteID(for: key)
                try transaction.exclude(
                    collection,
                    news.map {
                        Exclusion(
                            remote: remote, direction: .push, kind: $0.failure == nil ? .rejected : .held, id: $0.id, revision: $0.revision,
                            error: $0.failure?.message ?? "", plugin: plugin, version: version)
                    })
            }
        }
        var isAnyNew = false
        defer { if isAnyNew { for watcher in watchers.withLock({ Array($0.streams.values) }) { watcher.yield() } } }
        for each in kept {
            guard let failure = each.failure, let revision = each.revision else { continue }
            let place = Place(database: database.name, collection: collection.name, id: each.id)
            let isNew = held.withLock { held in
                guard held[place] != nil || held.count < Self.named else { return false }
                return held.updateValue(Held(failure: failure, revision: revision, context: context), forKey: place) == nil
            }
            isAnyNew = isAnyNew || isNew
            if isNew { onHeld(Stall(collection: collection.name, id: each.id, failure: failure)) }
        }
    }

    /// Documents of which another revision could be judged.
    private func forgetChanged(
        _ judged: some Sequence<(PolicyDocument, FilterVerdict)>, _ database: String, _ collection: CollectionName
    ) {
        held.withLock { held in
            if held.isEmpty { return }
            for (document, verdict) in judged {
                if case .failed = verdict { continue }
                let place = Place(database: database, collection: collection, id: document.id)
                if let known = held[place], known.revision != document.revision { held[place] = nil }
            }
        }
    }

    // MARK: - Reviewing the list

    private static let pageSize = 200

    private struct Page: Sendable {
        /// Documents to announce again.
        var released: [DocumentID] = []
        /// Documents on which the version in force failed.
        var asked: [PolicyDocument] = []
        /// Documents that have changed since the filter failed on them: the later revision is judged in its turn.
        var changed: [Exclusion] = []
        var next: DocumentID?
    }

    /// Reviews the list: documents kept back by another version move to a new sequence, and so do those on which the filter failed and can decide
    /// now.
    ///
    /// - Parameters:
    ///   - filter: nil if there is no filter any more.
    ///   - isStart: documents on which the filter failed are announced again in any case: it is no longer known for which peer it failed.
    /// - Returns: the number of documents announced to peers again.
    /// - Throws: ``StoreError``.
    @discardableResult
    public func review(_ filter: (any DocumentFilter)?, in database: Database, isStart: Bool = false) async throws -> Int {
        try await review(in: database, isStart: isStart) { _ in filter }
    }

    /// The same for collections that may have their own filter.
    @discardableResult
    func review(in database: Database, isStart: Bool, by filterOf: (CollectionName) -> (any DocumentFilter)?) async throws -> Int {
        var count = 0
        for collection in database.collections {
            let filter = filterOf(collection.name)
            var after: DocumentID?
            repeat {
                let current = filter.map { JudgedBy(plugin: $0.pluginName, version: $0.version) }
                var page = try await page(after: after, database, collection, current, isStart: isStart)
                if let filter { page.released += await decided(page.asked, filter, database.name, collection.name) }
                try await release(page, database, collection)
                count += page.released.count
                after = page.next
            } while after != nil && !Task.isCancelled
        }
        return count
    }

    private func page(
        after: DocumentID?, _ database: Database, _ collection: Collection, _ current: JudgedBy?, isStart: Bool
    ) async throws -> Page {
        let (key, plugin, version) = (Self.key(listener), current?.plugin, current?.version)
        return try await database.read { transaction in
            var page = Page()
            guard let remote = try transaction.existingRemote(for: key) else { return page }
            let rows = try transaction.exclusions(collection, remote: remote, direction: .push, after: after, limit: Self.pageSize)
            var last = after
            page.next = rows.count < Self.pageSize ? nil : rows.last?.id
            var bytes = 0
            for row in rows {
                if bytes >= StoreLimits.maxBodyBytesPerRead {
                    page.next = last
                    break
                }
                last = row.id
                guard row.plugin == plugin, row.version == version, !(isStart && row.kind == .held) else {
                    page.released.append(row.id)
                    continue
                }
                guard row.kind == .held else { continue }
                if let found = try transaction.row(collection, row.id, withBody: true), found.revision == row.revision {
                    page.asked.append(
                        PolicyDocument(id: row.id, revision: found.revision, isDeleted: found.isDeleted, body: found.body ?? []))
                    bytes += found.body?.count ?? 0
                } else {
                    page.changed.append(row)
                }
            }
            return page
        }
    }

    /// Those on which the filter no longer fails, for the peer for which it did.
    private func decided(
        _ documents: [PolicyDocument], _ filter: any DocumentFilter, _ database: String, _ collection: CollectionName
    ) async -> [DocumentID] {
        var decided: [DocumentID] = []
        for document in documents {
            let context = held.withLock { held in
                (held[Place(database: database, collection: collection, id: document.id)]
                    ?? held.first { $0.key.database == database && $0.key.collection == collection }?.value)?.context
            }
            if let context, case .failed? = await filter.allVerdicts([document], context).first { continue }
            decided.append(document.id)
        }
        return decided
    }

    private func release(_ page: Page, _ database: Database, _ collection: Collection) async throws {
        if page.released.isEmpty, page.changed.isEmpty { return }
        let (key, released, changed) = (Self.key(listener), page.released, page.changed)
        try await database.write { transaction in
            guard let remote = try transaction.existingRemote(for: key) else { return }
            for id in released { try transaction.touch(collection, id) }
            // Unless the filter has failed on the later revision in the meantime.
            let settled = try changed.filter {
                try transaction.exclusion(collection, remote: remote, direction: .push, id: $0.id)?.revision == $0.revision
            }
            try transaction.unexclude(collection, remote: remote, direction: .push, ids: released + settled.map(\.id))
        }
        held.withLock { held in
            for id in released + changed.map(\.id) { held[Place(database: database.name, collection: collection.name, id: id)] = nil }
        }
    }

    /// Announces again the documents kept back by listeners that no longer exist or no longer serve the database: their peers may connect in another
    /// way.
    ///
    /// - Returns: the number of documents.
    /// - Throws: ``StoreError``.
    @discardableResult
    public static func releaseRest(in database: Database, servedBy names: Set<String>) async throws -> Int {
        var count = 0
        for key in try await database.read({ try $0.remoteKeys(prefix: Self.keyPrefix) }) {
            let name = String(key.dropFirst(Self.keyPrefix.count))
            if !names.contains(name) { count += try await KeptFromPeers(listener: name).review(nil, in: database) }
        }
        return count
    }
}
