import DocumentStore
import Documents
import Environment
import Interfaces
import Logging
import MessageEndpoints
import NIOCore
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

/// A hub and its leaves, which know nothing but a message broker.
@Suite struct FleetTests {
    private struct Leaf {
        var database: Database
        var replicator: Replicator
    }

    private struct Factory: MessageEndpointDelegate {
        let broker: Broker
        let leaf: String
        let connections = Counter()

        final class Counter: Sendable {
            let value = Atomic(0)
        }

        func createConnection(for endpoint: MessageEndpoint) throws -> any MessageEndpointConnection {
            let id = "\(leaf)-\(connections.value.add(1, ordering: .relaxed).newValue)"
            return BrokerConnection(broker, inbox: "\(id)/down", outbox: "\(id)/up", hello: id)
        }
    }

    private func save(_ ids: [String], _ database: Database) async throws {
        let collection = try #require(database.collection(.default))
        try await database.write { transaction in
            for id in ids {
                let parent = try transaction.document(collection, DocumentID(stored: id))?.revision
                _ = try transaction.save(
                    collection, id: DocumentID(stored: id), body: Array("{\"by\":\"\(database.name)\"}".utf8), deleted: false, parent: parent)
            }
        }
    }

    private func contents(_ database: Database) async throws -> [String] {
        let collection = try #require(database.collection(.default))
        return try await database.read { try $0.changes(collection, since: 0, limit: 10_000, includeBodies: false).map { "\($0.id) \($0.revision)" }.sorted() }
    }

    @Test("Five leaves and a hub hold the same in the end, over a broker that dies once", arguments: [ProtocolType.messageStream, .byteStream])
    func fleet(_ type: ProtocolType) async throws {
        let folder = try TemporaryFolder()
        let broker = Broker(loops.next())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let context: @Sendable () -> any SerialContext = { EventLoopContext(loops.next()) }
        let hub = try Database.open(folder: folder.path("hub.nightjar"), name: "hub", options: DatabaseOptions())
        let listener = MessageEndpointListener(protocolType: type, context: context) { accepted in
            let session = ReplicationSession(
                transport: accepted.transport, role: .passive(PassiveConfiguration(listener: "broker", database: hub)), environment: .system, logger: logger)
            Task { await session.start() }
        }
        broker.subscribe("hub") { message in
            let id = String(buffer: message)
            listener.accept(BrokerConnection(broker, inbox: "\(id)/up", outbox: "\(id)/down"))
        }
        var leaves: [Leaf] = []
        for number in 0..<5 {
            let name = "leaf\(number)"
            let database = try Database.open(folder: folder.path("\(name).nightjar"), name: name, options: DatabaseOptions())
            let endpoint = MessageEndpoint(uid: name, target: "hub", protocolType: type, delegate: Factory(broker: broker, leaf: name), context: context)
            leaves.append(
                Leaf(
                    database: database,
                    replicator: Replicator(
                        configuration: ReplicatorConfiguration(
                            name: name, database: database, target: "broker:hub", isContinuous: true, retry: RetryMachine.Settings(maximumWaitSeconds: 1)),
                        connector: endpoint, environment: .system, logger: logger)))
        }
        for leaf in leaves {
            // Some of the documents are everybody's, and in conflict.
            try await save((0..<20).map { "\(leaf.database.name)-\($0)" } + ["shared-1", "shared-2"], leaf.database)
            await leaf.replicator.start()
        }
        let databases = leaves.map(\.database) + [hub]
        func converge(_ count: Int) async throws {
            try await eventually("all hold the same \(count) documents", within: .seconds(120)) {
                let wanted = try await contents(hub)
                guard wanted.count == count else { return false }
                for database in databases {
                    guard try await contents(database) == wanted else { return false }
                }
                return true
            }
        }
        try await converge(102)
        let before = broker.delivered
        broker.restart(keeping: "hub")
        for leaf in leaves { try await save(["after-\(leaf.database.name)", "shared-1"], leaf.database) }
        try await save(["from-the-hub"], hub)
        try await converge(108)
        #expect(broker.delivered > before)
        for leaf in leaves {
            #expect(leaf.replicator.status.counts.failed == 0 || leaf.replicator.status.counts.resolved > 0)
            await leaf.replicator.stop()
        }
        try await eventually("the hub has nobody left") { listener.connectionCount == 0 }
        await listener.closeAll()
        for database in databases { database.close() }
    }
}
