import Encodings
import HTTPServer
import Interfaces
import NIOCore

/// Opens a session with name and password at a server that supports this like Sync Gateway: `POST /DATABASE/_session`. The server then performs
/// the expensive password check once for many connections.
struct SessionOpening: Sendable {
    let configuration: WebSocketClient.Configuration
    let group: any EventLoopGroup

    /// On success, the session is among the configuration's cookies; a server without sessions sets none.
    func open(at url: EndpointURL) async throws {
        guard case .basic(let login)? = configuration.credentials else { return }
        var client = HTTPClient(.tcp(host: url.host, port: url.port), group: group)
        (client.proxy, client.networkInterface, client.limits) = (configuration.proxy, configuration.networkInterface, configuration.limits)
        client.bandwidth = configuration.bandwidth
        (client.connectTime, client.secureLayer) = (configuration.limits.connectTime, url.isSecure ? configuration.secureLayer : nil)
        let body = "{\"name\":\(JSONString.quoted(login.username)),\"password\":\(JSONString.quoted(login.password))}"
        let answer = try await client.request(
            "POST", url.databasePath + "/_session", headers: ["User-Agent": configuration.userAgent, "Content-Type": "application/json"],
            body: .buffer(ByteBuffer(string: body)), timeout: configuration.limits.connectTime, maximumBody: configuration.limits.errorBodyBytes)
        switch answer.status {
        case 200..<300: configuration.sessions?.receive(answer.headers)
        case 401, 403, 429, 500...:
            throw HandshakeResponse(status: answer.status, headers: answer.headers, body: Array(answer.body.readableBytesView)).error(at: url)
        // Servers made with Couchbase Lite have no sessions; a server that redirects will do so for the upgrade as well, and there name and
        // password are sent.
        default: break
        }
    }
}
