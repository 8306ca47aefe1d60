import Documents
import DocumentStore
import NIOPosix
import Replication
import Transport

/// Two well-behaved peers next to a crowd: what one of them writes reaches the other through the listener.
struct Companions {
    private let group: MultiThreadedEventLoopGroup
    private let folders: [String]
    private let databases: [Database]
    private let replicators: [Replicator]
    private let watcher: Watcher
    /// When each document was written.
    private let writing: Task<[Int64], any Error>

    /// Both are connected and have all existing documents; from then on ten documents per second are written.
    /// - Parameter folder: the prefix of their databases' folders.
    init(target: String, folder: String) async throws {
        // The crowd's event loops are busy with the crowd.
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        folders = ["\(folder)-writer.nightjar", "\(folder)-reader.nightjar"]
        let writer = try Database.open(folder: folders[0], name: "writer")
        let reader = try Database.open(folder: folders[1], name: "reader")
        databases = [writer, reader]
        replicators = [
            try await Self.connect(writer, to: target, .push, group), try await Self.connect(reader, to: target, .pull, group),
        ]
        watcher = Watcher(reader)
        writing = Task { try await Self.write(to: writer) }
    }

    private static func connect(
        _ database: Database, to target: String, _ type: ReplicatorType, _ group: MultiThreadedEventLoopGroup
    ) async throws -> Replicator {
        let replicator = Replicator(
            configuration: ReplicatorConfiguration(name: "bench", database: database, target: target, type: type, isContinuous: true),
            connector: WebSocketClient(.init(url: try EndpointURL(target)), group: group, environment: .system), environment: .system,
            logger: quietLogger("companion"))
        await replicator.start()
        for await status in replicator.statusChanges() {
            if status.activity == .idle { break }
            if status.activity == .stopped, let error = status.error { throw BenchError("the replicator of a companion stopped: \(error)") }
        }
        return replicator
    }

    private static func write(to database: Database) async throws -> [Int64] {
        guard let collection = database.collection(.default) else { throw BenchError("no default collection") }
        let generator = Readings(size: 280)
        var sent: [Int64] = []
        while !Task.isCancelled {
            let (number, now) = (sent.count, monotonicNanoseconds())
            let id = try DocumentID(generator.id(number))
            let body = Watcher.prefix + Array("\(now),".utf8) + generator.body(number).dropFirst()
            sent.append(now)
            try await database.write { transaction in
                _ = try transaction.save(collection, id: id, body: body, parent: nil)
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return sent
    }

    /// Seconds to wait for the last documents.
    private static let patience = 30.0

    /// Ends them while the crowd is still there.
    /// - Returns: the longest time that a document was in flight, in milliseconds; one that has not arrived counts with its age.
    func leave() async throws -> Double {
        writing.cancel()
        let sent = try await writing.value
        let deadline = monotonicSeconds() + Self.patience
        while await watcher.count < sent.count, monotonicSeconds() < deadline { try await Task.sleep(for: .milliseconds(20)) }
        let ages = await watcher.stop()
        let now = monotonicNanoseconds()
        for replicator in replicators { await replicator.stop() }
        for database in databases { database.close() }
        try await group.shutdownGracefully()
        for folder in folders { Files.remove(folder) }
        let missing = sent.dropFirst(ages.count).map { now - $0 }
        return Double((ages + missing).max() ?? 0) * 1e-6
    }
}
