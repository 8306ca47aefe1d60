import AgentConfiguration
import Digests
import HTTPServer

/// Who may use the admin API over TCP.
///
/// A page in a browser on the same machine can send requests here, either directly or through its own host name, made to resolve to this address (DNS
/// rebinding). A request therefore has to name this machine in a way that only its user would, and must not come from a page of another origin.
/// Clients that are not browsers need the token, if there is one.
struct AdminAccess: Sendable {
    /// What a request may see.
    enum Level: Equatable {
        /// Whatever the role allows, under the name of the token that was presented.
        case holder(name: String, AdminRole)
        case everybody
    }

    /// A token that is expected as `Authorization: Bearer …`.
    struct Token: Sendable {
        var name: String
        var secret: String
        var role: AdminRole
    }

    /// As configured: an address or a name.
    let address: String
    /// Further names under which the configuration makes the port reachable.
    let names: [String]
    /// If not empty, a request needs one of these.
    let tokens: [Token]
    /// Where a client finds the right token, for the answer to one that presented none.
    private let wanted: String

    /// - Parameter made: the token that the agent made, because the configuration names none.
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

    /// - Parameter pattern: of the route that matches the request; nil if none does.
    /// - Returns: `everybody` without a token, for a load balancer, which learns whether the agent is healthy but not why (reasons name documents and
    ///   plugins), and for the dashboard's own files, which contain no data and ask for the token.
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
        // Browsers send no Origin header for images and links, but they do send this one.
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
            "\(request.headers.first("Authorization") == nil ? "a token is needed" : "the token is wrong"): send \"Authorization: Bearer TOKEN\" "
                + "\(wanted); the agent's own user needs none on DATA/admin.sock",
            headers: ["WWW-Authenticate": "Bearer"])
    }

    /// The token that a request presents.
    func holder(_ request: HTTPRequest) -> Token? {
        let shown = Array((request.headers.first("Authorization") ?? "").utf8)
        // All are compared, so that timing does not reveal which one matched.
        return tokens.filter { constantTimeEquals(shown, Array("Bearer \($0.secret)".utf8)) }.first
    }

    /// The loopback names, the configured address and names, and the address that the client reached: an attacker cannot make his own host name equal
    /// to any of these.
    private func hosts(_ request: HTTPRequest) -> [String] {
        var hosts = ["localhost", "127.0.0.1", "::1"]
        for more in ([address, request.connection.localAddress?.host] + names).compactMap({ $0 }) where !hosts.contains(more) { hosts.append(more) }
        return hosts
    }

    /// The name or address in a Host header, without its port: the port may be a forwarded one. Nil if the header is malformed.
    private static func name(_ host: String) -> String? {
        let bytes = host.utf8
        guard bytes.first == UInt8(ascii: "[") else { return String(host.prefix { $0 != ":" }) }
        guard let end = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
        return String(host[bytes.index(after: bytes.startIndex)..<end])
    }
}
