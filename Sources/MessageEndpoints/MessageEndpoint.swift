import Environment
import Interfaces
import Synchronization

/// A remote database reached through an application's own transport: the target of a replicator.
public struct MessageEndpoint: TransportConnector {
    /// Identifies this peer, for the application's use.
    public var uid: String
    /// The remote peer, in a form that the delegate understands.
    public var target: any Sendable
    public var protocolType: ProtocolType
    public var delegate: any MessageEndpointDelegate
    /// On a byte stream: the offer sent to the listener.
    public var offer = EndpointOffer()
    public var limits = MessageEndpointLimits()
    /// The budget for what is held for the peer between the stream and the session.
    public var memory = MemoryBudget.unlimited
    private let environment: Environment
    private let context: @Sendable () -> any SerialContext

    /// - Parameter context: where a new connection and its session run.
    public init(
        uid: String, target: any Sendable, protocolType: ProtocolType = .messageStream, delegate: any MessageEndpointDelegate,
        environment: Environment = .system, context: @escaping @Sendable () -> any SerialContext
    ) {
        self.uid = uid
        self.target = target
        self.protocolType = protocolType
        self.delegate = delegate
        self.environment = environment
        self.context = context
    }

    /// Has the delegate create a connection, and opens it.
    ///
    /// - Throws: ``ReplicationError``; transient if the connection's error was recoverable.
    public func connect() async throws -> any MessageTransport {
        let connection: any MessageEndpointConnection
        do { connection = try delegate.createConnection(for: self) } catch let error as MessagingError { throw error.replicationError }
        // The end may come before anybody waits for it.
        let outcome = Outcome()
        let transport = EndpointTransport(
            connection, type: protocolType, offer: offer, context: context(), limits: limits, environment: environment, memory: memory,
            observer: EndpointObserver(opened: { outcome.set($0) }))
        transport.open(waitsForPeer: false)
        do {
            try await withTaskCancellationHandler {
                try await outcome.value()
            } onCancel: {
                transport.drop()
            }
            try Task.checkCancellation()
            return transport
        } catch {
            transport.drop()
            throw Task.isCancelled ? CancellationError() : error
        }
    }
}

/// A result that arrives once, before or after somebody waits for it.
private final class Outcome: Sendable {
    private struct State {
        var result: Result<String, ReplicationError>?
        var waiter: CheckedContinuation<Void, any Error>?
    }

    private let state = Mutex(State())

    func set(_ result: Result<String, ReplicationError>) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            guard state.result == nil else { return nil }
            state.result = result
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(with: result.map { _ in }.mapError { $0 as any Error })
    }

    func value() async throws {
        try await withCheckedThrowingContinuation { continuation in
            let result = state.withLock { state -> Result<String, ReplicationError>? in
                if state.result == nil { state.waiter = continuation }
                return state.result
            }
            if let result { continuation.resume(with: result.map { _ in }.mapError { $0 as any Error }) }
        }
    }
}
