import DocumentStore
import Environment
import Interfaces
import Logging
import Replication
import Synchronization

/// The documents that a listener's push filter held back from peers, and one reviewer per database while the listener is open.
final class PushFilterReviews: Sendable {
    let kept: KeptFromPeers
    private let running = Mutex<[PushFilterReview]>([])

    init(listener: String, _ logger: Logger) {
        kept = KeptFromPeers(listener: listener) {
            logger.warning(
                "document \($0.id) of \($0.collection) is left out of feeds, because the push filter fails: \($0.failure.message)",
                metadata: ["cause": "push plugin", "plugin": "\($0.failure.plugin)"])
        }
    }

    func start(_ listener: PeerListener) {
        let policies = listener.policies
        let reviews = listener.settings.databases.compactMap { name in
            listener.databases(name.value).map { database in
                let configuration = listener.passiveConfiguration(database, .anonymous, subprotocol: .generation3)
                return PushFilterReview(
                    kept, database: database, filterOf: { configuration.of($0).pushFilter },
                    servedBy: { policies.listenersOf(name.value) }, environment: listener.environment, logger: listener.logger)
            }
        }
        running.withLock { $0 = reviews }
        for review in reviews { listener.environment.task { await review.start() } }
    }

    func stop() async {
        let reviews = running.withLock { running in
            defer { running = [] }
            return running
        }
        for review in reviews { await review.stop() }
    }
}
