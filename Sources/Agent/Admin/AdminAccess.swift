import AgentConfiguration
import Digests
import HTTPServer

/// Who may use the admin API over TCP.
///
/// A page in a browser on the same machine can send requests here, directly or by a name of its own that it lets point to this address
/// (DNS rebinding). So the request has to be addressed to this machine by a name that only a user of it would give, and may not come from
/// a page of another origin. What is no browser needs the token, if there is one.
struct AdminAccess: Sendable {
    /// What a request may see.
    enum Level: Equatable {
        /// As much as a role may, by the name of the token that was shown.
        case holder(name: String, AdminRole)
        case everybody
    }

    /// A token that is wanted as `Authorization: Bearer …`.
    struct Token: Sendable {
        var name: String
        var secret: String
        var role: AdminRole
    }

    /// As configured: an address or a name.
    let address: String
    /// Further names that the configuration gives it.
    let names: [String]
    /// One of them is needed, if there are any.
    let tokens: [Token]
    /// Which token a client needs, for one that shows none of them.
    private let wanted: String

    /// - Parameter made: the token that the agent made, since the configuration names none.
    init(_ settings: AdminSettings, made: Secret? = nil) {
        address = settings.address.value
        names = settings.hosts.map(\.value)
        tokens = ((settings.token?.value ?? made).map { [Token(name: "admin", secret: $0.revealed, role: .edit)] } ?? [])
            + settings.tokens.map { Token(name: $0.name.value, secret: $0.token.value.revealed, role: $0.role) }
        let named = (settings.token == nil ? [] : ["admin.token"]) + (settings.tokens.isEmpty ? [] : ["one of admin.tokens"])
        wanted = named.isEmpty
            ? "with what is in DATA/admin.token"
            : "with \(named.joined(separator: " or ")) of the agent's configuration; DATA/admin.token is not used, since that names tokens"
    }

    /// - Parameter pattern: of the route that the request has; nil for none.
    /// - Returns: `everybody` for a load balancer without the token, which is told whether the agent is healthy and not why: reasons name
    ///   documents and plugins; and for the dashboard's own files, which hold nothing and ask for the token.
    /// - Throws: ``HTTPError`` 400, 401 or 403 that says why.
    func check(_ request: HTTPRequest, _ pattern: String?) throws(HTTPError) -> Level {
        let hosts = hosts(request)
        guard let host = request.headers.first("Host") else { throw HTTPError(400, "the request has no Host") }
        guard let name = Self.name(host), hosts.contains(where: { HeaderList.sameName($0, name) }) else {
            throw HTTPError(403, "the admin API is not at \"\(host)\": it is reached as \(hosts.joined(separator: ", ")); another name of this machine goes into admin: { hosts: [ … ] }")
        }
        if let origin = request.headers.first("Origin"), !HeaderList.sameName(origin, "http://\(host)") {
            throw HTTPError(
                403, "a page of \"\(origin)\" may not use the admin API: only requests without Origin, or from its own address, may")
        }
        // Browsers leave Origin out of what an image or a link asks for, and say this instead.
        if let site = request.headers.first("Sec-Fetch-Site"), !["same-origin", "none"].contains(site) {
            throw HTTPError(403, "a page of another site may not use the admin API (Sec-Fetch-Site: \(site))")
        }
        if tokens.isEmpty { return .holder(name: "anybody on this machine", .edit) }
        if let holder = holder(request) {
            let needed = pattern.map { AdminRole.needed(request.method, $0) } ?? .read
            guard holder.role.covers(needed) else {
                throw HTTPError(
                    403, "the token \"\(holder.name)\" has the role \(holder.role.rawValue), and \(request.method) \(request.path) needs \(needed.rawValue): "
                        + "use another token, or change its role in admin.tokens")
            }
            return .holder(name: holder.name, holder.role)
        }
        let isOpen = ["/health", "/live", "/ready"].contains(request.path) || DashboardRoutes.isPage(request.path)
        if isOpen, ["GET", "HEAD"].contains(request.method) { return .everybody }
        throw HTTPError(
            401,
            "\(request.headers.first("Authorization") == nil ? "a token is needed" : "this is not the token"): send \"Authorization: Bearer TOKEN\" "
                + "\(wanted); the agent's own user needs none on DATA/admin.sock",
            headers: ["WWW-Authenticate": "Bearer"])
    }

    /// Whose token a request shows.
    func holder(_ request: HTTPRequest) -> Token? {
        let shown = Array((request.headers.first("Authorization") ?? "").utf8)
        // All are compared, so that the time does not tell which.
        return tokens.filter { constantTimeEquals(shown, Array("Bearer \($0.secret)".utf8)) }.first
    }

    /// The loopback names, the configured address and names, and the address that the client reached: nobody can make a name of his own equal to it.
    private func hosts(_ request: HTTPRequest) -> [String] {
        var hosts = ["localhost", "127.0.0.1", "::1"]
        for more in ([address, request.connection.localAddress?.host] + names).compactMap({ $0 }) where !hosts.contains(more) { hosts.append(more) }
        return hosts
    }

    /// The name or address of a Host header, its port left out: a forwarded port has another number. Nil if it is malformed.
    private static func name(_ host: String) -> String? {
        let bytes = host.utf8
        guard bytes.first == UInt8(ascii: "[") else { return String(host.prefix { $0 != ":" }) }
        guard let end = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
        return String(host[bytes.index(after: bytes.startIndex)..<end])
    }
}
