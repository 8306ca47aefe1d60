import Documents
import DocumentStore
import Logging
import Replication

/// Decides the pending conflicts of one collection while no replication does: after the start, and after a plugin has changed.
actor ConflictKeeper {
    private let decider: ConflictDecider
    private let logger: Logger
    private var task: Task<Void, Never>?
    private var isWanted = false
    private var isStopped = false

    init(_ decider: ConflictDecider, logger: Logger) {
        self.decider = decider
        self.logger = logger
    }

    nonisolated func decidesForReplicator(in database: String) -> Bool {
        guard case .remote = decider.scope else { return false }
        return decider.database.name == database
    }

    /// Goes through all pending conflicts, and once more if called again meanwhile.
    func retry() {
        isWanted = true
        guard task == nil, !isStopped else { return }
        task = Task { await self.run() }
    }

    /// Called before the plugins are stopped.
    nonisolated func stopShadow() { decider.shadow?.stop() }

    func stop() async {
        isStopped = true
        isWanted = false
        await task?.value
    }

    private func run() async {
        while isWanted {
            isWanted = false
            var after: DocumentID?
            repeat {
                do {
                    let page = try await decider.conflicted(after: after, limit: 50)
                    after = page.next
                    for outcome in try await decider.decide(page.ids) {
                        if let failure = outcome.failure {
                            logger.warning(
                                "conflict of \(outcome.id) stays pending: \(failure.message)", metadata: ["plugin": "\(failure.plugin)"])
                        }
                    }
                } catch StoreError.closed {
                    after = nil
                } catch {
                    logger.error("\(error)")
                    after = nil
                }
            } while after != nil && !isStopped
        }
        task = nil
    }
}
