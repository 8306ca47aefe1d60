import DocumentStore
import Documents
import Environment
import Interfaces
import Logging

/// Has documents that a listener's push filter kept back announced to peers again when the filter changes: at once while the agent runs, otherwise
/// when the listener is opened. Those on which it failed are tried again at growing intervals as well: what failed may have been a time limit.
package actor PushFilterReview {
    private let kept: KeptFromPeers
    private let database: Database
    /// The filter of each collection.
    private let filterOf: @Sendable (CollectionName) -> (any DocumentFilter)?
    /// The filter of the default collection, whose changes are observed; a collection's own filter has a fixed version.
    private var filter: (any DocumentFilter)? { filterOf(.default) }
    /// The listeners that currently serve the database.
    private let servedBy: @Sendable () -> Set<String>
    private let environment: Environment
    private let logger: Logger
    private var tasks: [Task<Void, Never>] = []
    private var isStopped = false

    package init(
        _ kept: KeptFromPeers, database: Database, filterOf: @escaping @Sendable (CollectionName) -> (any DocumentFilter)?, servedBy: @escaping @Sendable () -> Set<String>,
        environment: Environment, logger: Logger
    ) {
        self.kept = kept
        self.database = database
        self.filterOf = filterOf
        self.servedBy = servedBy
        self.environment = environment
        self.logger = logger
    }

    deinit { for task in tasks { task.cancel() } }

    package func start() {
        guard tasks.isEmpty, !isStopped else { return }
        // Subscribed before the first review: a change in the meantime waits in the stream.
        let changes = filter?.allVersionChanges() ?? []
        tasks = [environment.task { [weak self] in await self?.insist(isStart: true) }]
        for versions in changes {
            tasks.append(
                environment.task { [weak self] in
                    // The same version is reported again if an operator requests it, or if the filter works again after repeated failures.
                    for await _ in versions { await self?.insist(isStart: false) }
                })
        }
        // Also subscribed at once.
        let failures = kept.failures()
        tasks.append(environment.task { [weak self] in for await _ in failures { await self?.retryHeld() } })
    }

    package func stop() async {
        isStopped = true
        let running = tasks
        tasks = []
        for task in running { task.cancel() }
        for task in running { await task.value }
    }

    /// `push_filter_retry`: seconds until documents on which the filter failed are tried again, and the longest such delay.
    private static let (firstRetry, longestRetry) = (30, 300)

    /// Returns when the filter fails on no document any more.
    private func retryHeld() async {
        let delay = RetryDelay(first: Self.firstRetry, longest: Self.longestRetry)
        var attempts = 0
        while kept.isHolding(any: database.name), !Task.isCancelled {
            do { try await environment.time.sleep(seconds: delay.seconds(after: attempts)) } catch { return }
            await insist(isStart: false)
            attempts += 1
        }
    }

    /// `push_filter_review_wait`: the longest delay in seconds between attempts while the disk fails; the first is 1.
    private static let longestWait: UInt64 = 60

    private func insist(isStart: Bool) async {
        var seconds: UInt64 = 1
        while await !review(isStart: isStart), !Task.isCancelled {
            do { try await environment.time.sleep(nanoseconds: seconds * 1_000_000_000) } catch { return }
            seconds = min(2 * seconds, Self.longestWait)
        }
    }

    /// Returns false if the store failed.
    private func review(isStart: Bool) async -> Bool {
        do {
            var count = isStart ? try await KeptFromPeers.releaseRest(in: database, servedBy: servedBy()) : 0
            count += try await kept.review(in: database, isStart: isStart, by: filterOf)
            if count > 0 {
                logger.notice(
                    "documents that were held back from peers are checked again: the push filter has changed, or is retried",
                    metadata: [
                        "database": "\(database.name)", "documents": "\(count)", "plugin": "\(filter?.pluginName ?? "")", "version": "\(filter?.version ?? "")",
                    ])
            }
        } catch StoreError.closed {
        } catch {
            logger.error("what the push filter kept from peers of database \(database.name) cannot be looked at: \(error)")
            return false
        }
        return true
    }
}
