import Documents
import DocumentStore
import NIOPosix
import PluginHost
import Replication
import Transport

/// One-shot pushes from an open database to an open hub, both in this process, with the numbers of what each one transferred.
struct OneShot {
    let database: Database
    let port: Int
    let group: MultiThreadedEventLoopGroup
    var usesDeltas = true
    /// A folder with the filter `none`.
    var plugins: String?

    func run() async throws -> (counts: ReplicationCounts, cost: Cost) {
        let logger = quietLogger("push")
        var collection = CollectionReplication(collection: .default)
        var host: PluginHost?
        if let plugins {
            let made = try PluginHost(folder: plugins, logger: logger, environment: .system)
            await made.start()
            collection.pushFilter = try made.pushFilter(plugin: "none", usedBy: "bench push_filter")
            host = made
        }
        let target = "ws://127.0.0.1:\(port)/hub"
        var configuration = ReplicatorConfiguration(name: "bench", database: database, target: target, type: .push, collections: [collection])
        configuration.usesDeltas = usesDeltas
        let replicator = Replicator(
            configuration: configuration,
            connector: WebSocketClient(.init(url: try EndpointURL(target)), group: group, environment: .system), environment: .system, logger: logger)
        let start = Stopwatch()
        await replicator.start()
        let status = await replicator.waitUntilStopped()
        let cost = start.cost
        await host?.shutdown()
        if let error = status.error { throw BenchError("the push failed: \(error)") }
        return (status.counts, cost)
    }

    /// Opens both databases and the hub for as long as the body runs.
    static func with<Result>(
        _ scratch: Scratch, _ name: String, _ body: (_ database: Database, _ port: Int, _ group: MultiThreadedEventLoopGroup) async throws -> Result
    ) async throws -> Result {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let folders = ["\(scratch.path)/\(name).nightjar", "\(scratch.path)/\(name)-hub.nightjar"]
        let database = try Database.open(folder: folders[0], name: "gateway")
        let hub = try Database.open(folder: folders[1], name: "hub")
        let (_, listener) = try await Hub.open(hub, group: group)
        let result = try await body(database, listener.port, group)
        await listener.stop()
        database.close()
        hub.close()
        try await group.shutdownGracefully()
        for folder in folders { Files.remove(folder) }
        return result
    }
}
