import Environment
import HTTPServer
import Interfaces
import Logging
import NIOCore
import Synchronization

@testable import Transport

/// A listener's owner made of closures, which hands accepted transports to the test.
final class TestDelegate: ListenerDelegate {
    let authorization: @Sendable (UpgradeRequest) async -> UpgradeDecision
    let response: @Sendable (HTTPRequest) async throws -> HTTPResponse
    let transports: AsyncStream<Accepted>
    private let continuation: AsyncStream<Accepted>.Continuation

    struct Accepted: Sendable {
        var receiver: Recorder
        var transport: any MessageTransport
        var request: UpgradeRequest
    }

    init(
        authorize: @escaping @Sendable (UpgradeRequest) async -> UpgradeDecision = { _ in .accept() },
        respond: @escaping @Sendable (HTTPRequest) async throws -> HTTPResponse = {
            _ = try await $0.body.collect()
            return .error(status: 404, error: "not_found", reason: $0.path)
        }
    ) {
        authorization = authorize
        response = respond
        (transports, continuation) = AsyncStream.makeStream()
    }

    func authorize(_ request: UpgradeRequest) async -> UpgradeDecision { await authorization(request) }
    func respond(to request: HTTPRequest) async throws -> HTTPResponse { try await response(request) }

    func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) {
        let receiver = Recorder(transport)
        transport.start(receiver)
        continuation.yield(Accepted(receiver: receiver, transport: transport, request: request))
    }

    func nextTransport() async -> Accepted? {
        for await accepted in transports { return accepted }
        return nil
    }
}

/// A session that keeps what it gets.
final class Recorder: MessageReceiver {
    enum Event: Sendable, Equatable {
        case messages([[UInt8]])
        case writability(Bool)
        case closed(ConnectionEnd)
    }

    let transport: any MessageTransport
    private let state = Mutex(State())

    private struct State {
        var messages: [[UInt8]] = []
        var batches: [Int] = []
        var writability: [Bool] = []
        var end: ConnectionEnd?
        var ends = 0
        var waiting: [(isDone: @Sendable (Progress) -> Bool, continuation: CheckedContinuation<Snapshot, Never>)] = []
    }

    /// What a test waits for, cheap to look at after every event.
    struct Progress: Sendable {
        var count: Int
        var writability: [Bool]
        var end: ConnectionEnd?
    }

    struct Snapshot: Sendable {
        var messages: [[UInt8]]
        var batches: [Int]
        var writability: [Bool]
        var end: ConnectionEnd?
        var ends: Int
    }

    init(_ transport: any MessageTransport) {
        self.transport = transport
    }

    var echoes: Bool {
        get { echo.withLock { $0 } }
        set { echo.withLock { $0 = newValue } }
    }
    private let echo = Mutex(false)

    func received(_ messages: [ByteBuffer]) {
        if echoes { transport.write(messages) }
        change { state in
            state.messages += messages.map { Array($0.readableBytesView) }
            state.batches.append(messages.count)
        }
    }

    func writabilityChanged(_ isWritable: Bool) { change { $0.writability.append(isWritable) } }

    func closed(_ end: ConnectionEnd) {
        change { state in
            state.end = end
            state.ends += 1
        }
    }

    private func change(_ body: (inout sending State) -> Void) {
        let done = state.withLock { state -> [(CheckedContinuation<Snapshot, Never>, Snapshot)] in
            body(&state)
            guard !state.waiting.isEmpty else { return [] }
            let progress = Self.progress(state)
            var done: [(CheckedContinuation<Snapshot, Never>, Snapshot)] = []
            for waiting in state.waiting where waiting.isDone(progress) { done.append((waiting.continuation, Self.snapshot(state))) }
            state.waiting.removeAll { $0.isDone(progress) }
            return done
        }
        for (continuation, snapshot) in done { continuation.resume(returning: snapshot) }
    }

    private static func progress(_ state: borrowing State) -> Progress {
        Progress(count: state.messages.count, writability: state.writability, end: state.end)
    }

    private static func snapshot(_ state: borrowing State) -> Snapshot {
        Snapshot(messages: state.messages, batches: state.batches, writability: state.writability, end: state.end, ends: state.ends)
    }

    func wait(_ isDone: @escaping @Sendable (Progress) -> Bool) async -> Snapshot {
        await withCheckedContinuation { continuation in
            let now = state.withLock { state -> Snapshot? in
                if isDone(Self.progress(state)) { return Self.snapshot(state) }
                state.waiting.append((isDone, continuation))
                return nil
            }
            if let now { continuation.resume(returning: now) }
        }
    }

    var now: Snapshot { state.withLock { Self.snapshot($0) } }

    func messages(_ count: Int) async -> [[UInt8]] { await wait { $0.count >= count || $0.end != nil }.messages }
    func end() async -> ConnectionEnd? { await wait { $0.end != nil }.end }
}

extension MessageTransport {
    func onLoop<Result: Sendable>(_ body: @escaping @Sendable (Self) throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            executionContext.execute { continuation.resume(with: Swift.Result { try body(self) }) }
        }
    }

    func send(_ messages: [[UInt8]]) async throws {
        try await onLoop { $0.write(messages.map { ByteBuffer(bytes: $0) }) }
    }

    func record() async throws -> Recorder {
        let recorder = Recorder(self)
        try await onLoop { $0.start(recorder) }
        return recorder
    }
}

/// Runs a listener on a free port of 127.0.0.1 for the length of a test.
func withListener<Result: Sendable>(
    _ delegate: TestDelegate = TestDelegate(), limits: TransportLimits = TransportLimits(), memory: MemoryBudget = .unlimited,
    _ body: (WebSocketListener, TestDelegate) async throws -> Result
) async throws -> Result {
    var configuration = WebSocketListener.Configuration(interface: "127.0.0.1", port: 0)
    configuration.limits = limits
    configuration.memory = memory
    let listener = try await WebSocketListener.bind(configuration, delegate: delegate, group: testGroup, logger: quietLogger())
    do {
        let result = try await body(listener, delegate)
        await listener.stop()
        return result
    } catch {
        await listener.stop()
        throw error
    }
}

func upgradeRequest(
    path: String = "/db/_blipsync", protocols: String? = "BLIP_3+CBMobile_3,BLIP_3+CBMobile_2", connection: String = "Upgrade", upgrade: String = "websocket",
    version: String = "13", key: String = "dGhlIHNhbXBsZSBub25jZQ==", extra: String = ""
) -> String {
    "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: \(connection)\r\nUpgrade: \(upgrade)\r\nSec-WebSocket-Version: \(version)\r\n"
        + "Sec-WebSocket-Key: \(key)\r\n" + (protocols.map { "Sec-WebSocket-Protocol: \($0)\r\n" } ?? "") + extra + "\r\n"
}

/// A raw socket after its upgrade, and the transport at the listener's side.
func upgraded(_ listener: WebSocketListener, _ delegate: TestDelegate, reads: Bool = true) async throws -> (RawSocket, TestDelegate.Accepted) {
    let socket = try await RawSocket.connect(port: listener.port, reads: reads)
    try await socket.send(upgradeRequest())
    if reads { _ = try await socket.readHeader() }
    guard let accepted = await delegate.nextTransport() else { throw EndOfBytes(rest: []) }
    return (socket, accepted)
}

func client(_ port: Int, path: String = "/db", _ change: (inout WebSocketClient.Configuration) -> Void = { _ in }) throws -> WebSocketClient {
    var configuration = WebSocketClient.Configuration(url: try EndpointURL("ws://127.0.0.1:\(port)\(path)"))
    change(&configuration)
    return WebSocketClient(configuration, group: testGroup, environment: .system)
}

/// The error that connecting ends with.
func connectionError(_ client: WebSocketClient) async -> ReplicationError? {
    do {
        let transport = try await client.connect()
        transport.drop()
        return nil
    } catch {
        return error as? ReplicationError
    }
}

func quietLogger() -> Logger {
    Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
}
