import MessageEndpoints
import NIOCore
import Synchronization

/// A message broker as applications have one: what is published on a topic comes to its subscriber, in order, a little later, and waits while
/// there is none. It can die, with all it holds.
final class Broker: Sendable {
    typealias Subscriber = @Sendable (ByteBuffer) -> Void

    private struct State {
        var subscribers: [String: Subscriber] = [:]
        var waiting: [String: [ByteBuffer]] = [:]
        var clients: [Int: @Sendable () -> Void] = [:]
        var next = 0
        var delivered = 0
        /// Counts the lives of the broker.
        var life = 0
    }

    private let state = Mutex(State())
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    var delivered: Int { state.withLock { $0.delivered } }

    /// - Parameter lost: called when the broker dies.
    func connect(lost: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.next += 1
            state.clients[state.next] = lost
            return state.next
        }
    }

    func disconnect(_ client: Int) { state.withLock { $0.clients[client] = nil } }

    func subscribe(_ topic: String, _ subscriber: @escaping Subscriber) {
        state.withLock { $0.subscribers[topic] = subscriber }
        wake(topic)
    }

    func unsubscribe(_ topic: String) {
        state.withLock { ($0.subscribers[topic], $0.waiting[topic]) = (nil, nil) }
    }

    func publish(_ topic: String, _ message: ByteBuffer) {
        state.withLock { $0.waiting[topic, default: []].append(message) }
        wake(topic)
    }

    private func wake(_ topic: String) {
        let life = state.withLock { $0.life }
        loop.execute {
            let (subscriber, messages) = self.state.withLock { state -> (Subscriber?, [ByteBuffer]) in
                guard state.life == life, let subscriber = state.subscribers[topic] else { return (nil, []) }
                let messages = state.waiting.removeValue(forKey: topic) ?? []
                state.delivered += messages.count
                return (subscriber, messages)
            }
            for message in messages { subscriber?(message) }
        }
    }

    /// Dies and comes back without anything that it held. Only those who wait to be connected are still there.
    func restart(keeping topic: String) {
        let clients = state.withLock { state in
            let clients = state.clients.values
            state.clients = [:]
            state.subscribers = state.subscribers.filter { $0.key == topic }
            state.waiting = [:]
            state.life += 1
            return Array(clients)
        }
        for lost in clients { lost() }
    }
}

/// One end of a connection over the broker: what arrives is on one topic, what is sent on another.
final class BrokerConnection: MessageEndpointConnection {
    private let broker: Broker
    private let inbox: String
    private let outbox: String
    private let hello: String?
    private let state = Mutex((client: Int?.none, replicator: (any ReplicatorConnection)?.none))

    /// - Parameter hello: what is published on `hub` first, so that the other end comes into being.
    init(_ broker: Broker, inbox: String, outbox: String, hello: String? = nil) {
        (self.broker, self.inbox, self.outbox, self.hello) = (broker, inbox, outbox, hello)
    }

    var peerDescription: String { outbox }

    func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        let client = broker.connect { connection.close(error: MessagingError("the broker is gone", isRecoverable: true)) }
        state.withLock { $0 = (client, connection) }
        if let hello { broker.publish("hub", ByteBuffer(string: hello)) }
        completion(true, nil)
        broker.subscribe(inbox) { message in
            // An empty message says goodbye.
            if message.readableBytes == 0 { connection.close(error: nil) } else { connection.receive(message) }
        }
    }

    func send(_ message: ByteBuffer, completion: @escaping @Sendable (Bool, MessagingError?) -> Void) {
        guard state.withLock({ $0.client }) != nil else { return completion(false, MessagingError("not connected", isRecoverable: true)) }
        broker.publish(outbox, message)
        completion(true, nil)
    }

    func close(error: MessagingError?, completion: @escaping @Sendable () -> Void) {
        let client = state.withLock { state in
            defer { state = (nil, nil) }
            return state.client
        }
        if let client {
            broker.disconnect(client)
            broker.unsubscribe(inbox)
            broker.publish(outbox, ByteBuffer())
        }
        completion()
    }
}
