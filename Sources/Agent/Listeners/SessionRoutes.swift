import Documents
import Encodings
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Transport

/// `/DATABASE/_session` as in Sync Gateway: POST opens a session for a name and password, GET says whose it is, DELETE ends it.
extension PeerListener {
    /// `max_session_request`: size of the request with name and password.
    private static let maximumRequest = 16 << 10

    package func respond(to request: HTTPRequest) async throws -> HTTPResponse {
        let rules = CrossOrigin(settings.cors)
        if let answer = rules.preflight(request) { return answer }
        var response: HTTPResponse
        do { response = try await answer(request, rules) } catch let error as HTTPError { response = error.response }
        renewCookies(&response, request)
        rules.mark(&response, request)
        return response
    }

    /// For the sessions that the request used.
    private func renewCookies(_ response: inout HTTPResponse, _ request: HTTPRequest) {
        guard response.status < 400, response.headers.first("Set-Cookie") == nil, mayUseCookies(request.headers),
            let cookies = request.headers.first("Cookie")
        else { return }
        if let id = sessions.due(cookies, "") { response.headers.add("Set-Cookie", setServerCookie(id)) }
        let name = request.path.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1).first
        guard let database = name.flatMap({ PercentEncoding.decode($0) }), let id = sessions.due(cookies, database) else { return }
        response.headers.add("Set-Cookie", setCookie(id, database))
    }

    private func answer(_ request: HTTPRequest, _ rules: CrossOrigin) async throws -> HTTPResponse {
        if case .stranger = rules.standing(request.headers) { throw HTTPError(403, "requests of other sites are refused") }
        // Only this exact path: for any other, the browser would not send the cookie.
        let parts = request.path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].isEmpty, !parts[1].isEmpty, parts[2].elementsEqual("_session".utf8),
            let database = PercentEncoding.decode(parts[1])
        else {
            return try await respondAsCouch(to: request)
        }
        switch request.method {
        case "POST": return try await openSession(request, database)
        case "GET":
            let found = sessions.find(request.headers.first("Cookie"), database)
            let principal = await found.asyncFlatMap { await admitted(by: $0, remote: request.connection.remoteAddress)?.principal }
            return Self.answer(principal)
        case "DELETE":
            if let found = sessions.find(request.headers.first("Cookie"), database) {
                sessions.end(found.key)
                await disconnectSession(found.key)
            }
            var answer = HTTPResponse.json("{\"ok\":true}\n")
            answer.headers.add("Set-Cookie", setCookie(nil, database))
            return answer
        default: throw HTTPError(405, "a session is opened by POST, looked at by GET and ended by DELETE", headers: ["Allow": "POST, GET, DELETE"])
        }
    }

    private func openSession(_ request: HTTPRequest, _ database: String) async throws -> HTTPResponse {
        var body = request.body
        body.limit = NamedLimit("max_session_request", Self.maximumRequest)
        try body.checkDeclaredLength()
        try request.checkCoding()
        let bytes = Array(try await body.collect().readableBytesView)
        var credentials = request.basicCredentials
        if !bytes.isEmpty {
            guard case .object(let object)? = try? JSONValue(parsing: bytes), let name = object["name"]?.asString,
                let password = object["password"]?.asString
            else { throw HTTPError(400, "a session is opened with {\"name\": ..., \"password\": ...}") }
            credentials = BasicCredentials(username: name, password: password)
        }
        let generation = authenticatorGeneration
        let login = UpgradeRequest(login: request, database: database, credentials: credentials)
        switch await authenticate(login) {
        case .refused(.refuse(let status, let reason, let headers)): throw HTTPError(status, reason, headers: headers)
        case .refused(.accept): throw HTTPError(500, "the login could not be checked")
        case .accepted(let principal, let proof):
            guard case .password = proof else { throw HTTPError(400, noSession(for: proof)) }
            guard serves(database) else { throw HTTPError(404, "there is no database \"\(database)\" here") }
            let id = sessions.open(database, principal, proof, generation: generation)
            var answer = Self.answer(principal)
            answer.headers.add("Set-Cookie", setCookie(id, database))
            return answer
        }
    }

    /// The session would outlive the token.
    func noSession(for proof: PeerAuthentication.Proof) -> String {
        if case .token = proof { "a session is opened by a name and a password; a token is shown with each request" } else { "this listener asks for no password, so there are no sessions" }
    }

    /// The log message about a session that was replaced by another.
    static func outnumbered(_ limit: NamedLimit) -> String {
        "the least recently used session ends to make room for a new one: \(limit.name) (\(limit.value)) is reached"
    }

    /// The session, if its user would still be let in as the same principal; otherwise it ends.
    func admitted(by found: (key: PeerSessions.Key, session: PeerSessions.Session), remote: String) async -> PeerSessions.Session? {
        let generation = authenticatorGeneration
        if found.session.generation != generation,
            await !wouldAdmit(found.session.proof, as: found.session.principal, remote: remote)
        {
            sessions.end(found.key)
            return nil
        }
        sessions.use(found.key, generation: generation)
        return found.session
    }

    /// A browser also sends cookies with requests from other sites' pages; if the request names another site as its origin, the cookies do not count.
    static func isSameOrigin(_ headers: HeaderList) -> Bool {
        guard let origin = headers.first("Origin") else { return true }
        guard let host = headers.first("Host") else { return false }
        return ["http://\(host)", "https://\(host)", "ws://\(host)", "wss://\(host)"].contains { HeaderList.sameName($0, origin) }
    }

    private func setCookie(_ id: String?, _ database: String) -> String {
        PeerSessions.setCookie(
            id, path: "/" + PercentEncoding.encode(database), isSecure: security != nil, forOtherSites: settings.cors?.credentials.value == true)
    }

    /// In Sync Gateway's format.
    private static func answer(_ principal: Principal?) -> HTTPResponse {
        let name = principal?.name.map { JSONString.quoted($0) } ?? "null"
        return .json("{\"authentication_handlers\":[\"default\",\"cookie\"],\"ok\":true,\"userCtx\":{\"channels\":{},\"name\":\(name)}}\n")
    }
}

extension Optional {
    fileprivate func asyncFlatMap<Result>(_ body: (Wrapped) async -> Result?) async -> Result? {
        guard case .some(let value) = self else { return nil }
        return await body(value)
    }
}
