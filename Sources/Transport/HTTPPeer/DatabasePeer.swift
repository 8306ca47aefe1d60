import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Synchronization

/// A remote database that is reached by HTTP: sends requests over a few kept connections with what the server wants to see of us, and renews
/// session, token or password when they end.
final class DatabasePeer: HTTPPeer, SecuredTransport {
    private let current: Mutex<WebSocketClient.Configuration>
    private let kept = KeptConnections()
    private let met = Mutex<SecurePeer?>(nil)
    private let context: EventLoopContext
    private let environment: Environment
    private let sessions: SessionCookies
    private let login: Mutex<Login>
    private let flow = Mutex(Flow())

    private typealias Taking = @Sendable (PeerAnswer, ByteBuffer) async throws -> Void

    /// How the server hears who we are.
    private enum Login {
        /// Not at all, until it asks.
        case withheld
        /// By a session that is to be opened first.
        case due
        /// The login is under way.
        case opening(Task<Result<Bool, ReplicationError>, Never>)
        /// By the cookie of a session.
        case session
        /// By the header `Authorization`, if at all.
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
            login = Mutex(hasSession ? .session : configuration.sendsCredentialsUpFront ? .due : .withheld)
        } else {
            login = Mutex(.header)
        }
    }

    // MARK: - As a transport

    var executionContext: any SerialContext { context }
    var isWritable: Bool { true }
    var securePeer: SecurePeer? { met.withLock { $0 } }
    private var configuration: WebSocketClient.Configuration { current.withLock { $0 } }
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

    func close(code: UInt16, reason: String) { end(code, reason) }
    func drop() { end(1006, "") }

    private func end(_ code: UInt16, _ reason: String) {
        let (receiver, waiting) = flow.withLock { flow in
            flow.isClosed = true
            defer { (flow.receiver, flow.waiting) = (nil, []) }
            return (flow.receiver, flow.waiting)
        }
        kept.close()
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
            try await untilLoggedIn()
            let shown = try await credentials()
            let answer = try await sendOnce(request, shown, take)
            guard answer.status == 401, mayLogInAgain(shown) else { return answer }
            try await untilLoggedIn()
            return try await sendOnce(request, try await credentials(), take)
        } catch var error as ReplicationError {
            // A server's message may repeat what was sent to it.
            error.message = configuration.withoutSecrets(error.message)
            throw error
        }
    }

    private func sendOnce(_ request: PeerRequest, _ shown: Shown, _ take: Taking?) async throws -> PeerAnswer {
        var headers: HeaderList = ["User-Agent": configuration.userAgent]
        for header in request.headers { headers.set(header.name, header.value) }
        for header in shown.headers { headers.set(header.name, header.value) }
        return try await send(request.method, configuration.url.databasePath + request.path, headers, request, take)
    }

    private func send(
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
        client.networkInterface = configuration.networkInterface
        let body: HTTPClient.RequestBody
        switch request.body {
        case .none: body = .none
        case .bytes(let bytes): body = .buffer(bytes)
        case .pieces(let length, let produce): body = .stream(length: length) { writer in try await produce { try await writer.write($0) } }
        }
        let (sessions, observe) = (sessions, configuration.onResponse)
        return try await client.stream(method, uri, headers: headers, body: body) { head, pieces in
            sessions.receive(head.headers)
            observe?(head.status, head.headers)
            var answer = PeerAnswer(status: head.status, headers: head.headers.map { ($0.name, $0.value) })
            let isGood = answer.isGood
            while let piece = try await pieces.next() {
                if isGood, let take {
                    try await take(answer, piece)
                    continue
                }
                guard answer.body.readableBytes + piece.readableBytes <= request.maximumAnswer else {
                    answer.isTooLarge = true
                    break
                }
                answer.body.writeImmutableBuffer(piece)
            }
            return answer
        }
    }

    /// What a request tells of who we are.
    private struct Shown: Sendable {
        var headers: HeaderList = [:]
        /// Of the session that the server opened.
        var session: String?
        var token: String?
    }

    private func credentials() async throws -> Shown {
        let configuration = configuration
        var shown = Shown(headers: configuration.headers, session: sessions.header(isSecure: configuration.url.isSecure))
        let cookies = [configuration.cookies, shown.session].compactMap(\.self).filter { !$0.isEmpty }
        if !cookies.isEmpty { shown.headers.set("Cookie", cookies.joined(separator: "; ")) }
        switch configuration.credentials {
        case .basic(let basic):
            guard case .header = login.withLock({ $0 }) else { break }
            shown.headers.set("Authorization", "Basic " + Base64.encode(Array("\(basic.username):\(basic.password)".utf8)))
        case .bearer(let token): shown.token = token
        case .iam(let tokens): shown.token = try await tokens.current()
        case nil: break
        }
        if let token = shown.token { shown.headers.set("Authorization", "Bearer \(token)") }
        return shown
    }

    /// What an answer that is no success means for the database.
    func refusal(_ answer: PeerAnswer) -> ReplicationError {
        let text = [UInt8](answer.body.readableBytesView.prefix(4_096))
        let words = [JSONText.string(forKey: "error", in: text), JSONText.string(forKey: "reason", in: text)].compactMap(\.self)
        var error = ReplicationError(
            domain: .http, code: answer.status,
            message: configuration.withoutSecrets(
                "\(configuration.url): HTTP \(answer.status)\(words.isEmpty ? "" : ", " + words.joined(separator: ": ").prefix(300))"))
        error.retryAfterSeconds = answer.header("retry-after").flatMap { Int($0) }.map { min(max($0, 0), 86_400) }
        return error
    }

    // MARK: - Logging in

    /// The server said 401 to a request with these credentials. False where nothing is left to try.
    private func mayLogInAgain(_ shown: Shown) -> Bool {
        let isRenewed = renew()
        switch configuration.credentials {
        case .iam(let tokens):
            if let token = shown.token { tokens.forget(token) }
            return true
        case .bearer(let token): return isRenewed || token != shown.token
        case nil: return isRenewed
        case .basic: break
        }
        return login.withLock { login in
            switch login {
            case .header where !isRenewed: return false
            case .due, .opening: return true
            case .withheld, .header: login = .due
            case .session:
                // Another request may have renewed it meanwhile.
                guard sessions.header(isSecure: configuration.url.isSecure) == shown.session else { return true }
                sessions.forget()
                login = .due
            }
            return true
        }
    }

    /// Reads again what may come from files.
    ///
    /// - Returns: whether it is different now.
    private func renew() -> Bool {
        let before = configuration
        guard let refresh = before.refresh else { return false }
        var now = before
        refresh(&now)
        current.withLock { ($0.credentials, $0.headers, $0.cookies) = (now.credentials, now.headers, now.cookies) }
        return now.credentials != before.credentials || now.headers != before.headers || now.cookies != before.cookies
    }

    private func untilLoggedIn() async throws {
        let task = login.withLock { login -> Task<Result<Bool, ReplicationError>, Never>? in
            switch login {
            case .due:
                let task = environment.task { await self.openSession() }
                login = .opening(task)
                return task
            case .opening(let task): return task
            case .withheld, .session, .header: return nil
            }
        }
        guard let result = await task?.value else { return }
        login.withLock { login in
            guard case .opening = login else { return }
            switch result {
            case .success(let hasSession): login = hasSession ? .session : .header
            case .failure: login = .due
            }
        }
        _ = try result.get()
    }

    /// Asks for a session, so that the server checks the password once and not with each request. False where it gives none.
    private func openSession() async -> Result<Bool, ReplicationError> {
        let configuration = configuration
        guard case .basic(let basic)? = configuration.credentials else { return .success(false) }
        do {
            var request = PeerRequest("POST", "")
            request.body = .bytes(
                ByteBuffer(string: "name=\(PercentEncoding.encode(basic.username))&password=\(PercentEncoding.encode(basic.password))"))
            request.maximumAnswer = configuration.limits.errorBodyBytes
            var headers: HeaderList = [
                "User-Agent": configuration.userAgent, "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded",
            ]
            for header in configuration.headers { headers.set(header.name, header.value) }
            let answer = try await send("POST", configuration.url.serverPath + "/_session", headers, request, nil)
            return .success(answer.isGood && sessions.header(isSecure: configuration.url.isSecure) != nil)
        } catch {
            return .failure(error as? ReplicationError ?? ReplicationError(network: .aborted, message: "\(error)"))
        }
    }
}

extension EndpointURL {
    /// The path of the database, without a slash at its end.
    var databasePath: String {
        var path = Substring(path)
        while path.last == "/" { path = path.dropLast() }
        return String(path)
    }

    /// The path of the server that has the database.
    var serverPath: String {
        let path = databasePath
        return path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }
}
