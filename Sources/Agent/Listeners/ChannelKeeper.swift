import AgentConfiguration
import DocumentStore
import Environment
import Logging
import Replication

/// Maintains the channels of databases that are served with a sync function: assigns channels to documents that did not come from a
/// peer, and deletes expired documents.
actor ChannelKeeper {
    /// Resyncs of the databases that are served with a sync function.
    nonisolated let resyncs: Resyncs
    private let time: any TimeSource
    private var routers: [ChannelRouter] = []
    private var expiry: Task<Void, Never>?

    /// `expiry_check`: seconds between two checks for expired documents. The same as in Couchbase Server.
    private static let expiryCheckSeconds = 60

    init(_ resyncs: Resyncs, time: any TimeSource) {
        self.resyncs = resyncs
        self.time = time
    }

    func start(
        _ settings: AgentSettings, _ source: PolicySource, databases: @escaping @Sendable (String) -> Database?, logger: Logger
    ) async throws {
        var served: Set<String> = []
        for listener in settings.listeners {
            guard let sync = listener.sync else { continue }
            // All listeners of a database have the same sync function.
            for name in listener.databases.map(\.value) where served.insert(name).inserted {
                guard let database = databases(name) else { continue }
                let function = try source.syncFunction(sync, usedBy: "listener \(listener.name.value) sync of \(name)")
                for collection in database.collections {
                    let router = ChannelRouter(
                        database: database, collection: collection, function: function, listener: listener.name.value, logger: logger)
                    routers.append(router)
                    await router.start()
                }
            }
        }
        await resyncs.serve(routers)
        let names = settings.databases.map(\.name.value)
        expiry = Task { [time] in
            while !Task.isCancelled {
                await Self.expire(names.compactMap(databases), now: time.wallSeconds(), logger: logger)
                try? await time.sleep(seconds: Self.expiryCheckSeconds)
            }
        }
    }

    func stop() async {
        expiry?.cancel()
        await expiry?.value
        expiry = nil
        await resyncs.stop()
        for router in routers { await router.stop() }
        routers = []
    }

    private static func expire(_ databases: [Database], now: Int64, logger: Logger) async {
        for database in databases {
            do {
                let count = try await database.expireDocuments(now: now)
                if count > 0 { logger.info("documents expired", metadata: ["database": "\(database.name)", "documents": "\(count)"]) }
            } catch StoreError.closed {
            } catch {
                logger.error("documents of database \(database.name) cannot expire: \(error)")
            }
        }
    }
}
