import ArgumentParser
import DocumentStore
import NIOPosix
import PluginHost
import Replication
import Transport

/// A one-shot push in a separate process. Reports its resource usage.
struct PushChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "push-child", shouldDisplay: false)

    @Option var folder: String
    @Option var port: Int
    @Option var plugins: String?
    @Option var secure: String?

    func run() async throws {
        let pushed = try await OneShotReplication.run(folder: folder, port: port, plugins: plugins, secure: secure)
        try tell("pushed=\(pushed.documents) seconds=\(pushed.cost.seconds) cpu=\(pushed.cost.cpuSeconds) peak=\(try residentMegabytes("VmHWM"))")
    }
}

/// A push or pull of a whole database, from the start of the replicator until it has stopped by itself.
enum OneShotReplication {
    /// - Parameters:
    ///   - plugins: a folder with the filter `two-fields`, for a push; nil for no filter.
    ///   - secure: the folder of the hub's ``BenchIdentity``; nil for clear text.
    static func run(
        folder: String, port: Int, type: ReplicatorType = .push, plugins: String? = nil, secure: String? = nil
    ) async throws -> (documents: Int, cost: Cost) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let logger = quietLogger("\(type)")
        let database = try Database.open(folder: folder, name: "gateway")
        var collection = CollectionReplication(collection: .default)
        var host: PluginHost?
        if let plugins {
            let made = try PluginHost(folder: plugins, logger: logger, environment: .system)
            await made.start()
            collection.pushFilter = try made.pushFilter(plugin: "two-fields", usedBy: "bench push_filter")
            host = made
        }
        let target = "\(secure == nil ? "ws" : "wss")://127.0.0.1:\(port)/hub"
        var client = WebSocketClient.Configuration(url: try EndpointURL(target))
        client.secureLayer = try secure.map { try BenchIdentity(folder: $0).client() }
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(
                name: "bench", database: database, target: target, type: type, collections: [collection]),
            connector: WebSocketClient(client, group: group, environment: .system), environment: .system, logger: logger)
        let start = Stopwatch()
        await replicator.start()
        let status = await replicator.waitUntilStopped()
        let cost = start.cost
        if let error = status.error { throw BenchError("the \(type) failed: \(error)") }
        guard status.counts.failed == 0, status.counts.held == 0, status.counts.rejected == 0 else {
            throw BenchError("the \(type) left documents behind: \(status.counts)")
        }
        await host?.shutdown()
        database.close()
        try await group.shutdownGracefully()
        return (Int(type == .pull ? status.counts.pulled : status.counts.pushed), cost)
    }
}
