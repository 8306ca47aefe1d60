import DocumentStore
import Documents
import Environment
import Interfaces
import Logging
import MessageEndpoints
import NIOCore
import NIOPosix
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

let loops = MultiThreadedEventLoopGroup(numberOfThreads: 2)

/// An application's transport: one end of a connection, as the seed describes what an application does.
final class Radio: MessageEndpointConnection {
    private struct State {
        var replicator: (any ReplicatorConnection)?
        var early: [ByteBuffer] = []
        var peer: Radio?
        var closes = 0
        var isGone = false
    }

    private let state = Mutex(State())
    private let openError: MessagingError?
    private let piece: Int?

    /// - Parameter piece: bytes of a stream come in such pieces; nil keeps messages whole.
    init(openError: MessagingError? = nil, piece: Int? = nil) {
        self.openError = openError
        self.piece = piece
    }

    static func pair(piece: Int?) -> (Radio, Radio) {
        let (one, other) = (Radio(piece: piece), Radio(piece: piece))
        one.state.withLock { $0.peer = other }
        other.state.withLock { $0.peer = one }
        return (one, other)
    }

    var peerDescription: String { "radio" }
    /// The replicator's connection, which the application keeps.
    var replicator: (any ReplicatorConnection)? { state.withLock { $0.replicator } }
    /// How often the replicator asked to close.
    var closes: Int { state.withLock { $0.closes } }

    func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        let early = state.withLock { state in
            state.replicator = connection
            defer { state.early = [] }
            return state.early
        }
        completion(openError == nil, openError)
        for message in early { connection.receive(message) }
    }

    func send(_ message: ByteBuffer, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        guard let peer = state.withLock({ $0.isGone ? nil : $0.peer }) else { return completion(false, MessagingError("out of reach", isRecoverable: true)) }
        var rest = message
        repeat { peer.arrived(rest.readSlice(length: min(piece ?? .max, rest.readableBytes)) ?? ByteBuffer()) } while rest.readableBytes > 0
        completion(true, nil)
    }

    private func arrived(_ message: ByteBuffer) {
        let replicator = state.withLock { state -> (any ReplicatorConnection)? in
            if state.replicator == nil { state.early.append(message) }
            return state.replicator
        }
        replicator?.receive(message)
    }

    func close(error: MessagingError?, completion: @escaping @Sendable () -> Void) {
        let peer = state.withLock { state in
            state.closes += 1
            return state.peer
        }
        // The communication framework tells the other peer, whose application closes its side.
        peer?.replicator?.close(error: nil)
        completion()
    }

    /// The other side's machine dies: nobody there says anything any more.
    func vanish() { state.withLock { $0.isGone = true } }
}

/// Two databases joined by radio, and the connections that were made.
final class Field: Sendable {
    let here: Database
    let there: Database
    let listener: MessageEndpointListener
    let replicator: Replicator
    private let folder: TemporaryFolder
    private let made: Made

    private final class Made: Sendable {
        let pairs = Mutex<[(active: Radio, passive: Radio?)]>([])
        let openErrors: [MessagingError]
        let listener: MessageEndpointListener
        let piece: Int?

        init(_ openErrors: [MessagingError], _ listener: MessageEndpointListener, piece: Int?) {
            self.openErrors = openErrors
            self.listener = listener
            self.piece = piece
        }
    }

    private struct Factory: MessageEndpointDelegate {
        let made: Made

        func createConnection(for endpoint: MessageEndpoint) throws -> any MessageEndpointConnection {
            let number = made.pairs.withLock { $0.count }
            if number < made.openErrors.count {
                let radio = Radio(openError: made.openErrors[number])
                made.pairs.withLock { $0.append((radio, nil)) }
                return radio
            }
            let (active, passive) = Radio.pair(piece: made.piece)
            made.pairs.withLock { $0.append((active, passive)) }
            made.listener.accept(passive)
            return active
        }
    }

    init(_ type: ProtocolType, openErrors: [MessagingError] = [], attempts: Int? = nil) throws {
        folder = try TemporaryFolder()
        here = try Database.open(folder: folder.path("here.nightjar"), name: "here", options: DatabaseOptions())
        there = try Database.open(folder: folder.path("there.nightjar"), name: "there", options: DatabaseOptions())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let context: @Sendable () -> any SerialContext = { EventLoopContext(loops.next()) }
        listener = MessageEndpointListener(protocolType: type, context: context) { [there] accepted in
            let session = ReplicationSession(
                transport: accepted.transport, role: .passive(PassiveConfiguration(listener: "radio", database: there)), environment: .system, logger: logger)
            Task { await session.start() }
        }
        made = Made(openErrors, listener, piece: type == .byteStream ? 37 : nil)
        let endpoint = MessageEndpoint(uid: "here", target: "there", protocolType: type, delegate: Factory(made: made), context: context)
        replicator = Replicator(
            configuration: ReplicatorConfiguration(
                name: "radio", database: here, target: "radio:there", isContinuous: true,
                retry: RetryMachine.Settings(maximumAttempts: attempts, maximumWaitSeconds: 1)),
            connector: endpoint, environment: .system, logger: logger)
    }

    /// All connections so far.
    var connections: [(active: Radio, passive: Radio?)] { made.pairs.withLock { $0 } }

    func save(_ id: String, in database: Database) async throws {
        let collection = try #require(database.collection(.default))
        try await database.write { transaction in
            _ = try transaction.save(collection, id: DocumentID(stored: id), body: Array("{}".utf8), deleted: false, parent: nil)
        }
    }

    func has(_ id: String, in database: Database) async throws -> Bool {
        let collection = try #require(database.collection(.default))
        return try await database.read { try $0.document(collection, DocumentID(stored: id)) != nil }
    }

    /// A document of each side has come to the other.
    func exchanges(_ mark: String) async throws {
        try await save("\(mark)-here", in: here)
        try await save("\(mark)-there", in: there)
        try await eventually("documents \(mark) are exchanged") {
            try await self.has("\(mark)-here", in: self.there) ? self.has("\(mark)-there", in: self.here) : false
        }
    }

    func end() async {
        await replicator.stop()
        await listener.closeAll()
        here.close()
        there.close()
    }
}
