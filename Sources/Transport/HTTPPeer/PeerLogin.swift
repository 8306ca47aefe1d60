import Encodings
import HTTPServer
import Interfaces
import NIOCore

/// How we identify ourselves to a peer, and what to do when it no longer accepts us.
extension DatabasePeer {
    /// The credentials in a request.
    struct Shown: Sendable {
        /// Credentials from the configuration; without cookies of sessions that the server opened.
        struct Configured: Sendable, Equatable {
            var headers: HeaderList
            var cookies: String?
            var authorization: String?
        }

        var configured: Configured
        /// The session that the server opened.
        var session: String?
        var token: String?

        var headers: HeaderList {
            var headers = configured.headers
            let cookies = [configured.cookies, session].compactMap(\.self).filter { !$0.isEmpty }
            if !cookies.isEmpty { headers.set("Cookie", cookies.joined(separator: "; ")) }
            if let authorization = configured.authorization { headers.set("Authorization", authorization) }
            return headers
        }

        /// Texts that nobody else may see.
        var secrets: [String] {
            let cookies = [configured.cookies, session].compactMap(\.self).flatMap { $0.split(separator: ";") }
            return cookies.compactMap { $0.split(separator: "=", maxSplits: 1).last.map { String($0) } }
                + [configured.authorization?.split(separator: " ").last].compactMap { $0.map { String($0) } }
        }
    }

    func credentials() async throws -> Shown {
        let configuration = configuration
        var shown = Shown(
            configured: .init(headers: configuration.headers, cookies: configuration.cookies),
            session: sessions.header(isSecure: configuration.url.isSecure))
        switch configuration.credentials {
        case .basic(let basic):
            guard case .header = login.withLock({ $0 }) else { break }
            shown.configured.authorization = Self.authorization(basic)
        case .bearer(let token): shown.token = token
        case .iam(let tokens): shown.token = try await tokens.current()
        case .supplied(let tokens):
            let token = try await tokens.current()
            shown.token = token.text
            if let cookie = token.cookie {
                // The server may have renewed this cookie itself, and would get both.
                shown.session = sessions.header(isSecure: configuration.url.isSecure, without: cookie)
                shown.configured.cookies = token.cookieHeader
                return shown
            }
        case nil: break
        }
        if let token = shown.token { shown.configured.authorization = "Bearer \(token)" }
        return shown
    }

    private static func authorization(_ basic: BasicCredentials) -> String {
        "Basic " + Base64.encode(Array("\(basic.username):\(basic.password)".utf8))
    }

    /// Called after a 401 to a request with these credentials. False if the next request would contain the same ones.
    func mayLogInAgain(_ shown: Shown) async throws -> Bool {
        let isRenewed = renew()
        switch configuration.credentials {
        case .iam(let tokens):
            if let token = shown.token { tokens.forget(token) }
            return true
        case .supplied(let tokens):
            if let token = shown.token { tokens.forget(token) }
            return try await credentials().configured != shown.configured
        // Another request may have renewed them meanwhile.
        case .bearer, nil: return try await credentials().configured != shown.configured
        case .basic(let basic):
            return login.withLock { login in
                switch login {
                case .header where !isRenewed:
                    var now = Shown.Configured(headers: configuration.headers, cookies: configuration.cookies)
                    now.authorization = Self.authorization(basic)
                    return now != shown.configured
                case .due, .opening: return true
                case .withheld, .header: login = Self.shownLogin(configuration)
                case .session:
                    guard sessions.header(isSecure: configuration.url.isSecure) == shown.session else { return true }
                    sessions.forget()
                    login = .due
                }
                return true
            }
        }
    }

    /// Reads values again that may come from files.
    ///
    /// - Returns: whether anything has changed.
    private func renew() -> Bool {
        let before = configuration
        guard let refresh = before.refresh else { return false }
        var now = before
        refresh(&now)
        guard now.credentials != before.credentials || now.headers != before.headers || now.cookies != before.cookies else { return false }
        remember(before.secrets)
        return current.withLock { current in
            // Several requests may have read the same change; one of them has applied it.
            guard now.credentials != current.credentials || now.headers != current.headers || now.cookies != current.cookies else { return false }
            (current.credentials, current.headers, current.cookies) = (now.credentials, now.headers, now.cookies)
            return true
        }
    }

    func waitUntilLoggedIn() async throws {
        while true {
            let opening = login.withLock { login -> SharedWork<Bool>? in
                switch login {
                case .opening(let opening) where !opening.isGivenUp: return opening
                case .due, .opening:
                    let opening = SharedWork<Bool>(environment) { await self.open($0) }
                    login = .opening(opening)
                    return opening
                case .withheld, .session, .header: return nil
                }
            }
            guard let opening else { return }
            if isClosed { opening.cancel() }
            do {
                _ = try await opening.value()
                return
            } catch is CancellationError {
                // Other waiters may have abandoned it.
                guard !Task.isCancelled, !isClosed else { throw CancellationError() }
            }
        }
    }

    private func open(_ opening: SharedWork<Bool>) async -> Result<Bool, ReplicationError> {
        let result = await openSession()
        login.withLock { login in
            guard case .opening(let current) = login, current === opening else { return }
            switch result {
            case .success(let hasSession): login = hasSession ? .session : .header
            case .failure: login = .due
            }
        }
        return result
    }

    /// Requests a session, so that the server checks the password once instead of for each request. False if it does not offer sessions.
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
    /// The path of the database, without a trailing slash.
    var databasePath: String {
        var path = Substring(path)
        while path.last == "/" { path = path.dropLast() }
        return String(path)
    }

    /// The path of the server that contains the database.
    var serverPath: String {
        let path = databasePath
        return path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }
}
