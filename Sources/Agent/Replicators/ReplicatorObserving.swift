import AgentConfiguration
import Encodings
import Environment
import Logging
import LuaRuntime
import PluginHost
import Replication
import Synchronization

/// Plugins that observe replicators.
extension Agent {
    /// Observes until ``ReplicatorObservers/end(_:within:)``.
    func observe(_ replicator: Replicator, _ settings: ReplicatorSettings) throws {
        guard let reference = settings.observer else { return }
        let name = settings.name.value
        let observer = try policies().observer(reference, usedBy: "replicator \(name) observer")
        observers.add(ReplicatorObserving(replicator, observer, environment.time, logs.logger(.replicator).with("replicator", name)), of: replicator)
    }
}

/// The observers that exist.
final class ReplicatorObservers: Sendable {
    private let all = Mutex([ObjectIdentifier: ReplicatorObserving]())

    func add(_ observing: ReplicatorObserving, of replicator: Replicator) { all.withLock { $0[ObjectIdentifier(replicator)] = observing } }

    /// Observers of stopped replicators report what they have collected; after that they receive nothing more about these replicators.
    ///
    /// - Parameter nanoseconds: no call begins after this time; a running call is bounded by its plugin's limits.
    func end(_ replicators: [Replicator], within nanoseconds: UInt64) async {
        let gone = all.withLock { all in replicators.compactMap { all.removeValue(forKey: ObjectIdentifier($0)) } }
        await withTaskGroup(of: Void.self) { tasks in
            for observing in gone { tasks.addTask { await observing.finish(within: nanoseconds) } }
        }
    }
}

/// Tells a plugin what a replicator does, from the same streams as `/api/events`, without ever delaying the replicator: only the newest status
/// counts, and a limited number of documents is queued.
final class ReplicatorObserving: Sendable {
    private enum Limits {
        /// Nanoseconds between two statuses.
        static let pause: UInt64 = 200_000_000
        /// Documents per call.
        static let batch = 100
        /// How long to wait between two checks for a full batch, in nanoseconds, and how many times.
        static let look: UInt64 = 20_000_000
        static let looks = 10
    }

    private let observer: PluginObserver
    private let time: any TimeSource
    private let logger: Logger
    private let unreported: UnreportedDocuments
    /// When cancelled, it reads what its stream still holds, without waiting for more, and ends.
    private let gathering: Task<Void, Never>
    private let telling: [Task<Void, Never>]

    init(_ replicator: Replicator, _ observer: PluginObserver, _ time: any TimeSource, _ logger: Logger) {
        let unreported = UnreportedDocuments()
        (self.observer, self.time, self.logger, self.unreported) = (observer, time, logger, unreported)
        let configuration = replicator.configuration
        let (database, name, remote) = (configuration.database.name, configuration.name, configuration.shownTarget)
        let tell: @Sendable (LuaHook, [UInt8]) async -> Void = { hook, notification in
            await observer.tell(hook, notification, database: database, replicator: name, remote: remote)
        }
        let (statuses, batches) = (replicator.statusChanges(kept: 1), replicator.documentEvents())
        gathering = Task { for await batch in batches { unreported.add(batch) } }
        telling = [
            Task {
                var told: [UInt8] = []
                for await status in statuses {
                    let notification = ReplicatorNotification.status(status)
                    guard notification != told else { continue }
                    told = notification
                    await tell(.onStatus, notification)
                    try? await time.sleep(nanoseconds: Limits.pause)
                }
            },
            Task {
                var isReported = false
                for await _ in unreported.signal {
                    while unreported.count > 0 {
                        var looks = 0
                        while unreported.count < Limits.batch, looks < Limits.looks, !Task.isCancelled {
                            try? await time.sleep(nanoseconds: Limits.look)
                            looks += 1
                        }
                        let (events, missed) = unreported.take(Limits.batch)
                        if missed > 0 {
                            observer.missed(missed)
                            if !isReported { logger.warning("\(Self.words(observer.plugin, missed))") }
                            isReported = true
                        }
                        if !events.isEmpty { await tell(.onDocuments, ReplicatorNotification.documents(events)) }
                    }
                }
            },
        ]
    }

    deinit {
        unreported.close()
        for task in telling + [gathering] { task.cancel() }
    }

    /// Reports what has been collected, and the latest status. Documents for which no time is left are counted.
    func finish(within nanoseconds: UInt64) async {
        gathering.cancel()
        await gathering.value
        for task in telling { task.cancel() }
        await Deadline.run(nanoseconds: nanoseconds, time) { [telling] in
            for task in telling { await task.value }
        }
        let left = unreported.close()
        guard left > 0 else { return }
        observer.missed(left)
        logger.warning(
            "the plugin \(observer.plugin) was not told of \(Plural.count(left, "document")): it is slower than the replicator, and its end does not wait for it any longer")
    }

    private static func words(_ plugin: String, _ missed: Int) -> String {
        "the plugin \(plugin) is slower than the replicator, and was not told of \(Plural.count(missed, "document")), since observed_documents is \(UnreportedDocuments.most); "
            + "replication goes on; this is said once, and nightjar status --json and /metrics count them as not asked"
    }
}

/// Outcomes of documents that have not been passed to the plugin yet.
final class UnreportedDocuments: Sendable {
    /// `observed_documents`: any more are dropped, and counted.
    static let most = 5_000

    private struct State {
        var events: [DocumentEvent] = []
        var missed = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    /// Yields a value when there is something to take.
    let signal: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    init() { (signal, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    var count: Int { state.withLock { $0.events.count } }

    func add(_ batch: [DocumentEvent]) {
        state.withLock { state in
            if state.isClosed { return }
            let room = Self.most - state.events.count
            state.events += batch.prefix(room)
            state.missed += max(0, batch.count - room)
        }
        wake.yield()
    }

    /// Discards what was not taken, and ignores later events.
    ///
    /// - Returns: the number of documents that were never taken.
    @discardableResult
    func close() -> Int {
        state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.events.count + state.missed
        }
    }

    /// The oldest, and how many were left out since the last time.
    func take(_ most: Int) -> (events: [DocumentEvent], missed: Int) {
        state.withLock { state in
            let events = Array(state.events.prefix(most))
            state.events.removeFirst(events.count)
            defer { state.missed = 0 }
            return (events, state.missed)
        }
    }
}
