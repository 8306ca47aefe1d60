import ArgumentParser
import DocumentStore
import NIOPosix

/// The hub in a separate process. Reports its port, works until its input ends, then reports its resource usage.
struct HubChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "hub-child", shouldDisplay: false)

    @Option var folder: String
    /// Reports the age of each document at the moment it becomes readable here.
    @Flag var watch = false
    @Option var secure: String?
    @Option var connections = 100
    /// `limits.memory`, in MB.
    @Option var memory = 64

    func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        var options = DatabaseOptions()
        options.maxBlobBytes = 1 << 40
        let database = try Database.open(folder: folder, name: "hub", options: options)
        let (_, listener) = try await Hub.open(database, group: group, secure: secure, connections: connections, memory: memory)
        let watcher = watch ? Watcher(database) : nil
        let start = Stopwatch()
        try tell("port=\(listener.port)")
        await endOfInput()
        let cost = start.cost
        let documents = try await database.statistics().reduce(0) { $0 + $1.documents }
        let peak = try residentMegabytes("VmHWM")
        try tell("documents=\(documents) cpu=\(cost.cpuSeconds) peak=\(peak)")
        if let watcher {
            let ages = await watcher.stop().map { "\($0)" }.joined(separator: ",")
            try tell("ages=\(ages)")
        }
        await listener.stop()
        database.close()
        try await group.shutdownGracefully()
    }
}
