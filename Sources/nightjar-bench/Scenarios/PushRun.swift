import DocumentStore
import NIOPosix

/// One push of a whole database into an empty one over a loopback WebSocket, and its cost on both sides.
struct PushRun {
    var seconds: Double
    /// CPU seconds of both sides together.
    var cpuSeconds: Double
    /// Each side's peak memory in MB; nil if both sides share this process.
    var pusherPeak: Double?
    var hubPeak: Double?

    /// - Parameters:
    ///   - source: a closed database. It is modified: the push records in it what the hub has.
    ///   - processes: 2 for one process per side, as on two machines; 1 for both sides in this process.
    ///   - plugins: a folder with the filter `two-fields`; nil for no filter.
    ///   - secure: the folder of a ``BenchIdentity``, for TLS; nil for clear text.
    static func run(
        source: String, hub: String, documents: Int, processes: Int, plugins: String? = nil, secure: String? = nil
    ) async throws -> PushRun {
        let run = processes == 1
            ? try await inProcess(source, hub, documents, plugins, secure)
            : try twoProcesses(source, hub, documents, plugins, secure)
        Files.remove(hub)
        return run
    }

    private static func twoProcesses(
        _ source: String, _ hub: String, _ documents: Int, _ plugins: String?, _ secure: String?
    ) throws -> PushRun {
        let own = try Child.ownPath()
        let tls = secure.map { ["--secure", $0] } ?? []
        let passive = try Child(own, ["hub-child", "--folder", hub] + tls)
        let port = Int(try passive.values().number("port"))
        let active = try Child(
            own, ["push-child", "--folder", source, "--port", "\(port)"] + (plugins.map { ["--plugins", $0] } ?? []) + tls)
        let pushed = try active.values()
        active.wait()
        passive.closeInput()
        let received = try passive.values()
        passive.wait()
        try check(Int(try received.number("documents")), documents)
        return PushRun(
            seconds: try pushed.number("seconds"), cpuSeconds: try pushed.number("cpu") + received.number("cpu"),
            pusherPeak: try pushed.number("peak"), hubPeak: try received.number("peak"))
    }

    private static func inProcess(
        _ source: String, _ hub: String, _ documents: Int, _ plugins: String?, _ secure: String?
    ) async throws -> PushRun {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let database = try Database.open(folder: hub, name: "hub")
        let (_, listener) = try await Hub.open(database, group: group, secure: secure)
        let pushed = try await OneShotReplication.run(folder: source, port: listener.port, plugins: plugins, secure: secure)
        let received = try await database.statistics().reduce(0) { $0 + $1.documents }
        await listener.stop()
        database.close()
        try await group.shutdownGracefully()
        try check(received, documents)
        return PushRun(seconds: pushed.cost.seconds, cpuSeconds: pushed.cost.cpuSeconds)
    }

    private static func check(_ received: Int, _ documents: Int) throws {
        guard received == documents else { throw BenchError("the hub has \(received) documents after a push of \(documents)") }
    }
}
