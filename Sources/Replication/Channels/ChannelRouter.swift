import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import Logging

/// Assigns channels to documents of one collection that did not come from a peer of the listener: local edits, and documents pulled by replicators.
/// The sync function is asked on behalf of the agent itself, so its `require_…` checks pass. A document that it refuses or cannot decide about is in
/// no channel, and is judged again when the function changes.
public actor ChannelRouter {
    let database: Database
    let collection: Collection
    let function: any SyncFunction
    let context: PolicyContext
    let logger: Logger
    private var environment: Environment { database.environment }
    private var tasks: [Task<Void, Never>] = []
    /// How far assigning has come in this run; the stored position may lag behind, at the cost of examining documents that are already assigned.
    private var reached: SequenceNumber = 0
    /// How often the unassigned documents were reviewed, and the trigger for another review.
    private var retries = 0
    private var again: AsyncStream<Void>.Continuation?

    public init(database: Database, collection: Collection, function: any SyncFunction, listener: String, logger: Logger) {
        self.database = database
        self.collection = collection
        self.function = function
        context = PolicyContext(
            database: database.name, collection: collection.name, direction: .pull, listener: listener, remote: PolicyContext.ownRouting)
        self.logger = logger
    }

    deinit { for task in tasks { task.cancel() } }

    public func start() {
        guard tasks.isEmpty else { return }
        let signal = database.changeSignal(collection)
        let versions = function.versionChanges()
        let (wakes, again) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.again = again
        again.yield()
        tasks = [
            environment.task { [weak self] in
                for await _ in signal { await self?.insist { await $0.catchUp() } }
            },
            environment.task { [weak self] in
                for await _ in wakes { await self?.insist { await $0.retry() } }
            },
            // The same version is reported again if an operator requests it, or if the function works again after repeated failures.
            environment.task { for await _ in versions { again.yield() } },
        ]
    }

    public func stop() async {
        let running = tasks
        tasks = []
        for task in running { task.cancel() }
        for task in running { await task.value }
    }

    // MARK: - Assigning

    private static let placeKey = "channels/routed"
    static let batch = 200
    /// How far the stored position may lag behind, in sequences, so that peers' pushes cause no writes here.
    private static let lag: SequenceNumber = 10_000

    private struct Unrouted: Sendable {
        var documents: [PolicyDocument] = []
        var through: SequenceNumber
        var stored: SequenceNumber
        var isEnd: Bool
    }

    /// `channel_retry_wait`: the longest delay in seconds between attempts while the disk fails; the first is 1.
    private static let longestWait: UInt64 = 60

    /// A disk that is full or fails temporarily must not leave documents out of their channels until the next write.
    private func insist(_ attempt: @Sendable (isolated ChannelRouter) async -> Bool) async {
        var seconds: UInt64 = 1
        while await !attempt(self), !Task.isCancelled {
            do { try await environment.time.sleep(nanoseconds: seconds * 1_000_000_000) } catch { return }
            seconds = min(2 * seconds, Self.longestWait)
        }
    }

    /// Returns false if the store failed.
    private func catchUp() async -> Bool {
        do {
            while !Task.isCancelled {
                let (collection, reached) = (collection, reached)
                let found = try await database.read { transaction -> Unrouted in
                    let stored = try Self.place(collection, transaction)
                    let since = max(reached, stored)
                    let changes = try transaction.changes(collection, since: since, limit: Self.batch, includeBodies: true)
                    var found = Unrouted(through: changes.last?.sequence ?? since, stored: stored, isEnd: changes.isEmpty)
                    for change in changes where try transaction.routedRevision(collection, change.id) != change.revision {
                        found.documents.append(
                            PolicyDocument(
                                id: change.id, revision: change.revision, isDeleted: change.isDeleted, body: change.body ?? []))
                    }
                    return found
                }
                if found.isEnd { return true }
                if !found.documents.isEmpty || found.through - found.stored > Self.lag {
                    let before = retries
                    let areAllAssigned = try await assign(found.documents, through: found.through)
                    // Documents about which an earlier version could not decide were not on the list yet when a later version was asked.
                    if !areAllAssigned, retries != before { again?.yield() }
                }
                self.reached = max(self.reached, found.through)
            }
        } catch StoreError.closed {
        } catch {
            logger.error("channels of \(database.name).\(collection.name) cannot be assigned: \(error)")
            return false
        }
        return true
    }

    /// Retries unassigned documents. Those that succeed move to a new sequence, because peers have passed the old one. Returns false if the store
    /// failed.
    private func retry() async -> Bool {
        retries += 1
        do {
            var after: DocumentID?
            repeat {
                let (collection, start) = (collection, after)
                let (documents, known, next) = try await database.read { transaction -> ([PolicyDocument], [DocumentID: DocumentRoute], DocumentID?) in
                    let page = try transaction.unassigned(collection, after: start, limit: Self.batch)
                    let documents = try page.compactMap { id, _ -> PolicyDocument? in
                        guard let document = try transaction.document(collection, id) else { return nil }
                        return PolicyDocument(id: id, revision: document.revision, isDeleted: document.isDeleted, body: document.body)
                    }
                    return (documents, Dictionary(page) { first, _ in first }, page.count < Self.batch ? nil : page.last?.0)
                }
                after = next
                try await assign(documents, through: nil, again: known)
            } while after != nil && !Task.isCancelled
        } catch StoreError.closed {
        } catch {
            logger.error("channels of \(database.name).\(collection.name) cannot be assigned: \(error)")
            return false
        }
        return true
    }

    /// - Parameter again: the stored state of documents that could not be assigned before.
    /// - Returns: whether all of them are assigned.
    @discardableResult
    private func assign(
        _ documents: [PolicyDocument], through: SequenceNumber?, again: [DocumentID: DocumentRoute] = [:]
    ) async throws -> Bool {
        let collection = collection
        let routes = await function.routes(of: documents, context)
        for (document, route) in routes where route.isFailed {
            logger.warning("document \(document.id) is in no channel: \(route.error)", metadata: ["plugin": "\(route.plugin)"])
        }
        try await database.write { [routes] transaction in
            var isChanged = false
            for (document, route) in routes {
                // A newer revision is assigned in its own turn.
                guard try transaction.document(collection, document.id)?.revision == document.revision else { continue }
                if let known = again[document.id] {
                    // A repeated failure writes nothing: it may occur every minute.
                    if Self.isSameFailure(known, route) { continue }
                    if route.error.isEmpty { try transaction.touch(collection, document.id) }
                }
                try transaction.route(collection, document.id, document.revision, route)
                isChanged = true
            }
            if let through { try Self.setPlace(through, collection, transaction) }
            if isChanged { try transaction.signalChange(collection) }
        }
        return routes.allSatisfy { $0.1.error.isEmpty }
    }

    /// The stored text may have been cut, and the message of a disabled function contains a counter.
    private static func isSameFailure(_ known: DocumentRoute, _ new: DocumentRoute) -> Bool {
        let cause = known.error.place(of: " (not called: ").map { known.error[..<$0.lowerBound] } ?? known.error[...]
        return !new.error.isEmpty && known.plugin == new.plugin && known.version == new.version && new.error.utf8.starts(with: cause.utf8)
    }

    /// How far assigning has come: documents up to here were examined.
    private static func place(_ collection: Collection, _ transaction: ReadTransaction) throws -> SequenceNumber {
        guard let stored = try transaction.localDocument(collection, id: placeKey),
            case .object(let object)? = try? JSONValue(parsing: stored.body), case .number(let number)? = object["through"]
        else { return 0 }
        return SequenceNumber(clamping: number.asInt64 ?? 0)
    }

    private static func setPlace(_ place: SequenceNumber, _ collection: Collection, _ transaction: WriteTransaction) throws {
        let stored = try transaction.localDocument(collection, id: placeKey)
        try transaction.putLocalDocument(
            collection, id: placeKey, body: Array("{\"through\":\(place)}".utf8), expectedRevision: stored?.revision)
    }
}
