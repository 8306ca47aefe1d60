import Documents
import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Synchronization

/// A remote database reached over HTTP: sends requests over a few kept connections, with the credentials that the server expects, and renews a
/// session, token or password when it expires.
final class DatabasePeer: HTTPPeer, SecuredTransport {
    let current: Mutex<WebSocketClient.Configuration>
    private let kept = KeptConnections()
    private let met = Mutex<SecurePeer?>(nil)
    private let context: EventLoopContext
    let environment: Environment
    let sessions: SessionCookies
    let login: Mutex<Login>
    private let flow = Mutex(Flow())
    /// Secrets that were sent earlier and have been replaced or dropped: a late answer may repeat them.
    private let former = Mutex<[String]>([])
    /// `former_secrets`.
    private static let formerSecrets = 64

    typealias Taking = @Sendable (PeerAnswer, ByteBuffer) async throws -> Void

    /// How we identify ourselves to the server.
    enum Login {
        /// Not at all until it asks.
        case withheld
        /// With a session that has to be opened first.
        case due
        /// A login is in progress.
        case opening(SharedWork<Bool>)
        /// With a session's cookie.
        case session
        /// With the `Authorization` header, if at all.
        case header
    }

    private struct Flow {
        var isReading = true
        var isClosed = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var receiver: (any MessageReceiver)?
    }

    init(_ configuration: WebSocketClient.Configuration, eventLoop: any EventLoop, environment: Environment) {
        current = Mutex(configuration)
        self.environment = environment
        context = EventLoopContext(eventLoop)
        sessions = configuration.sessions ?? SessionCookies(time: environment.time)
        if case .basic? = configuration.credentials {
            let hasSession = sessions.header(isSecure: configuration.url.isSecure) != nil
            login = Mutex(hasSession ? .session : configuration.sendsCredentialsUpFront ? Self.shownLogin(configuration) : .withheld)
        } else {
            login = Mutex(.header)
        }
    }

    /// How name and password are used.
    static func shownLogin(_ configuration: WebSocketClient.Configuration) -> Login { configuration.mayOpenSessions ? .due : .header }

    // MARK: - As a transport

    var executionContext: any SerialContext { context }
    var isWritable: Bool { true }
    var securePeer: SecurePeer? { met.withLock { $0 } }
    var configuration: WebSocketClient.Configuration { current.withLock { $0 } }
    var peerDescription: String { configuration.url.description }

    func start(_ receiver: any MessageReceiver) { flow.withLock { $0.receiver = receiver } }
    func write(_ messages: [ByteBuffer]) {}

    func setReading(_ enabled: Bool) {
        let waiting = flow.withLock { flow in
            flow.isReading = enabled
            guard enabled else { return [CheckedContinuation<Void, Never>]() }
            defer { flow.waiting = [] }
            return flow.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func untilReading() async {
        await withCheckedContinuation { continuation in
            let goesOn = flow.withLock { flow in
                if flow.isReading || flow.isClosed { return true }
                flow.waiting.append(continuation)
                return false
            }
            if goesOn { continuation.resume() }
        }
    }

    var isClosed: Bool { flow.withLock { $0.isClosed } }
    func close(code: UInt16, reason: String) { end(code, reason) }
    func drop() { end(1006, "") }

    private func end(_ code: UInt16, _ reason: String) {
        let (receiver, waiting) = flow.withLock { flow in
            flow.isClosed = true
            defer { (flow.receiver, flow.waiting) = (nil, []) }
            return (flow.receiver, flow.waiting)
        }
        kept.close()
        if case .opening(let work) = login.withLock({ $0 }) { work.cancel() }
        for continuation in waiting { continuation.resume() }
        guard let receiver else { return }
        context.execute { receiver.closed(ConnectionEnd(code: code, reason: reason, initiatedLocally: true)) }
    }

    // MARK: - Requests

    func exchange(_ request: PeerRequest) async throws -> PeerAnswer { try await send(request, nil) }

    func download(_ request: PeerRequest, _ take: @escaping @Sendable (PeerAnswer, ByteBuffer) async throws -> Void) async throws -> PeerAnswer {
        try await send(request, take)
    }

    private func send(_ request: PeerRequest, _ take: Taking?) async throws -> PeerAnswer {
        do {
            try await waitUntilLoggedIn()
            let shown = try await credentials()
            let answer = try await sendOnce(request, shown, take)
            guard answer.status == 401, try await mayLogInAgain(shown) else { return cleaned(answer) }
            try await waitUntilLoggedIn()
            return cleaned(try await sendOnce(request, try await credentials(), take))
        } catch var error as ReplicationError {
            // A server's message may repeat what was sent to it.
            error.message = withoutSecrets(error.message)
            throw error
        }
    }

    func withoutSecrets(_ text: String) -> String {
        former.withLock { $0 }.reduce(configuration.withoutSecrets(text)) { $0.with($1, replacedBy: "(secret)") }
    }

    /// The text of a refusal is used in errors and logs.
    private func cleaned(_ answer: PeerAnswer) -> PeerAnswer {
        guard !answer.isGood, answer.body.readableBytes > 0 else { return answer }
        var answer = answer
        // In JSON a character can be escaped in several ways, so the strings are cleaned after parsing. Nothing but strings is used from it.
        if case .object(let object)? = try? JSONValue(parsing: [UInt8](answer.body.readableBytesView)) {
            let texts = object.members.compactMap { member in member.value.asString.map { JSONObject.Member(key: member.key, value: .string(withoutSecrets($0))) } }
            answer.body = ByteBuffer(bytes: JSONValue.object(JSONObject(texts)).serialize())
        } else {
            answer.body = ByteBuffer(string: withoutSecrets(String(buffer: answer.body)))
        }
        return answer
    }

    /// Remembers secrets that were sent, because an answer still on its way may repeat them.
    func remember(_ secrets: [String]) {
        let secrets = secrets.filter { $0.utf8.count >= WebSocketClient.Configuration.shortestSecret }
        former.withLock { former in
            for each in secrets where !former.contains(each) { former.append(each) }
            if former.count > Self.formerSecrets { former.removeFirst(former.count - Self.formerSecrets) }
        }
    }

    private func sendOnce(_ request: PeerRequest, _ shown: Shown, _ take: Taking?) async throws -> PeerAnswer {
        remember(shown.secrets)
        var headers: HeaderList = ["User-Agent": configuration.userAgent]
        for header in request.headers { headers.set(header.name, header.value) }
        for header in shown.headers { headers.set(header.name, header.value) }
        return try await send(request.method, configuration.url.databasePath + request.path, headers, request, take)
    }

    func send(
        _ method: String, _ uri: String, _ headers: HeaderList, _ request: PeerRequest, _ take: Taking?
    ) async throws -> PeerAnswer {
        let configuration = configuration
        guard !configuration.url.isSecure || configuration.secureLayer != nil else {
            throw ReplicationError(
                domain: .tls, code: 6, message: "\(configuration.url): no TLS is configured for https:", remedy: "write https: in target")
        }
        var client = HTTPClient(.tcp(host: configuration.url.host, port: configuration.url.port), group: context.eventLoop)
        client.kept = kept
        client.onSecured = { [weak self] peer in self?.met.withLock { $0 = peer } }
        client.proxy = configuration.proxy
        client.limits = configuration.limits
        client.connectTime = configuration.limits.connectTime
        client.secureLayer = configuration.secureLayer
        client.patience = .milliseconds(Int64(request.patience))
        client.pace = request.hasHeartbeat ? nil : HTTPClient.Pace()
        client.networkInterface = configuration.networkInterface
        client.bandwidth = configuration.bandwidth
        let body: HTTPClient.RequestBody
        switch request.body {
        case .none: body = .none
        case .bytes(let bytes): body = .buffer(bytes)
        case .pieces(let length, let produce):
            body = .stream(length: length) { writer in
                try await produce { piece in
                    try await writer.write(piece)
                    request.moved?(piece.readableBytes)
                }
            }
        }
        let (sessions, observe, errorBytes) = (sessions, configuration.onResponse, configuration.limits.errorBodyBytes)
        return try await client.stream(method, uri, headers: headers, body: body) { head, pieces in
            sessions.receive(head.headers)
            observe?(head.status, head.headers)
            var answer = PeerAnswer(status: head.status, headers: head.headers.map { ($0.name, $0.value) })
            let isGood = answer.isGood
            while let piece = try await pieces.next() {
                request.moved?(piece.readableBytes)
                if isGood, let take {
                    try await take(answer, piece)
                    continue
                }
                let bytes = answer.body.readableBytes + piece.readableBytes
                guard bytes <= (isGood ? request.maximumAnswer : errorBytes) else {
                    // For a refusal, the beginning is enough.
                    answer.isTooLarge = isGood
                    break
                }
                if isGood { try await request.collecting?(bytes) }
                answer.body.writeImmutableBuffer(piece)
            }
            return answer
        }
    }

    /// What a failure status means for the database.
    func refusal(_ answer: PeerAnswer) -> ReplicationError {
        let text = [UInt8](answer.body.readableBytesView.prefix(4_096))
        let words = [ErrorBody.string(forKey: "error", in: text), ErrorBody.string(forKey: "reason", in: text)].compactMap(\.self)
        var error = ReplicationError(
            domain: .http, code: answer.status,
            message: configuration.withoutSecrets(
                "\(configuration.url): HTTP \(answer.status)\(words.isEmpty ? "" : ", " + words.joined(separator: ": ").prefix(300))"))
        error.retryAfterSeconds = RetryAfter.seconds(answer.header("retry-after"), date: answer.header("date"))
        return error
    }

}
