import Environment
import Interfaces
import Synchronization

/// The listening side: accepts connections created by an application's own transport.
public final class MessageEndpointListener: Sendable {
    /// An admitted connection.
    public struct Accepted: Sendable {
        public var transport: any MessageTransport
        public var offer: EndpointOffer
        public var protocolName: String
        /// The context that was returned with the answer to the offer.
        public var context: (any Sendable)?
    }

    private struct State {
        var connections: [ObjectIdentifier: EndpointTransport] = [:]
        var contexts: [ObjectIdentifier: (offer: EndpointOffer, answer: (any Sendable)?)] = [:]
        var waiters: [CheckedContinuation<Void, Never>] = []
        /// Connections that are not open yet, oldest first; without those that wait for a peer.
        var opening: [ObjectIdentifier] = []
    }

    public let protocolType: ProtocolType
    public let limits: MessageEndpointLimits
    private let environment: Environment
    private let memory: MemoryBudget
    private let context: @Sendable () -> any SerialContext
    private let admit: @Sendable (EndpointOffer, any MessageEndpointConnection) async -> EndpointAnswer
    private let serve: @Sendable (Accepted) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - memory: the budget for what is held for peers between the stream and the session.
    ///   - context: where a new connection and its session run.
    ///   - admit: on byte streams: decides about a peer by its offer. Message streams have no offers: there, the transport knows who the peer is.
    ///   - serve: starts a replication session on an open connection. Called in the connection's context.
    public init(
        protocolType: ProtocolType = .messageStream, limits: MessageEndpointLimits = .init(), environment: Environment = .system,
        memory: MemoryBudget = .unlimited, context: @escaping @Sendable () -> any SerialContext,
        admit: @escaping @Sendable (EndpointOffer, any MessageEndpointConnection) async -> EndpointAnswer = MessageEndpointListener.admitsAll,
        serve: @escaping @Sendable (Accepted) -> Void
    ) {
        self.protocolType = protocolType
        self.limits = limits
        self.environment = environment
        self.memory = memory
        self.context = context
        self.admit = admit
        self.serve = serve
    }

    /// Admits everybody who speaks one of our protocols.
    public static let admitsAll: @Sendable (EndpointOffer, any MessageEndpointConnection) async -> EndpointAnswer = { offer, _ in
        guard let name = Subprotocol.choose(of: offer.protocols, prefersVersions: offer.prefersVersions) else {
            return .refuse(status: 400, reason: "none of the protocols is supported here: \(offer.protocols.joined(separator: ", "))")
        }
        return .accept(protocol: name)
    }

    public var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Takes a connection and opens it. One beyond `connections` is closed with a recoverable error; one beyond `handshakes` displaces the one that
    /// has been silent the longest.
    ///
    /// - Parameters:
    ///   - context: where it runs; nil for the listener's choice.
    ///   - waitsForPeer: for a byte stream that exists before anybody uses it, such as a serial line: there is no time limit for the peer's first
    ///     frame.
    public func accept(_ connection: any MessageEndpointConnection, in context: (any SerialContext)? = nil, waitsForPeer: Bool = false) {
        let key = ObjectIdentifier(connection)
        let transport = EndpointTransport(
            connection, type: protocolType, offer: nil, context: context ?? self.context(), limits: limits, environment: environment,
            memory: memory, observer: EndpointObserver(
                offered: { [weak self] in self?.decide($0, connection) },
                opened: { [weak self] in self?.opened($0, key) },
                ended: { [weak self] _ in self?.forget(key) }))
        let (isTaken, oldest) = state.withLock { state -> (Bool, EndpointTransport?) in
            guard state.connections.count < limits.connections, state.connections[key] == nil else { return (false, nil) }
            state.connections[key] = transport
            guard !waitsForPeer, protocolType == .byteStream else { return (true, nil) }
            state.opening.append(key)
            guard state.opening.count > limits.handshakes else { return (true, nil) }
            return (true, state.connections[state.opening.removeFirst()])
        }
        oldest?.close(code: 4001, reason: "gave way to another connection: more are being opened than handshakes (\(limits.handshakes)) allows")
        guard isTaken else {
            return connection.close(
                error: MessagingError("as many connections as the limit connections (\(limits.connections)) allows", isRecoverable: true)) {}
        }
        transport.open(waitsForPeer: waitsForPeer)
    }

    /// Ends one connection, calling its ``MessageEndpointConnection/close(error:completion:)``. The peer may come back.
    public func close(_ connection: any MessageEndpointConnection) {
        state.withLock { $0.connections[ObjectIdentifier(connection)] }?.close(code: 4001, reason: "the listener closed the connection")
    }

    /// Ends all connections, and waits until they have ended: at the latest after `close_time`.
    public func closeAll(code: UInt16 = 4001, reason: String = "the listener stops") async {
        for transport in state.withLock({ Array($0.connections.values) }) { transport.close(code: code, reason: reason) }
        await withCheckedContinuation { continuation in
            let isEmpty = state.withLock { state in
                if !state.connections.isEmpty { state.waiters.append(continuation) }
                return state.connections.isEmpty
            }
            if isEmpty { continuation.resume() }
        }
    }

    private func decide(_ offer: EndpointOffer, _ connection: any MessageEndpointConnection) {
        let key = ObjectIdentifier(connection)
        environment.task { [admit] in
            let answer = await admit(offer, connection)
            let transport = self.state.withLock { state in
                if case .accept(_, let context) = answer { state.contexts[key] = (offer, context) }
                return state.connections[key]
            }
            transport?.answer(answer)
        }
    }

    private func opened(_ result: Result<String, ReplicationError>, _ key: ObjectIdentifier) {
        guard case .success(let name) = result else { return }
        state.withLock { $0.opening.removeAll { $0 == key } }
        let (transport, about) = state.withLock { ($0.connections[key], $0.contexts.removeValue(forKey: key)) }
        guard let transport else { return }
        serve(Accepted(transport: transport, offer: about?.offer ?? EndpointOffer(protocols: [name]), protocolName: name, context: about?.answer))
    }

    private func forget(_ key: ObjectIdentifier) {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.connections[key] = nil
            state.contexts[key] = nil
            state.opening.removeAll { $0 == key }
            guard state.connections.isEmpty else { return [] }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}
