import Digests
import Encodings
import HTTPServer
import Interfaces

/// The HTTP side of RFC 6455, section 4, without sockets.
enum WebSocketHandshake {
    /// The contents of a valid upgrade request.
    struct Offer: Equatable {
        var accept: String
        var offeredProtocols: [String]
        var selectedProtocol: String
    }

    /// Why a request is not upgraded.
    struct Refusal: Error, Equatable {
        var status: Int
        var reason: String
        var headers: HeaderList = [:]
        /// The offered protocols, if none of them is supported: operators should know about a peer of a different generation.
        var unknownProtocols: [String]?
    }

    static func accept(forKey key: String) -> String {
        Base64.encode(SHA1.hash(Array(key.utf8) + Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)))
    }

    /// Checks an upgrade request. Lists in `Connection` and `Upgrade` are accepted, and several `Sec-WebSocket-Protocol` lines are read as
    /// one; see ``Subprotocol/choose(of:spoken:prefersVersions:)``.
    static func check(method: String, headers: HeaderList, speaking spoken: [String]) -> Result<Offer, Refusal> {
        guard method == "GET" else {
            return .failure(Refusal(status: 405, reason: "a replication connection begins with GET, not \(method)", headers: ["Allow": "GET"]))
        }
        guard headers.list("Connection").contains(where: { HeaderList.sameName($0, "upgrade") }),
            headers.list("Upgrade").contains(where: { HeaderList.sameName($0, "websocket") })
        else {
            return .failure(
                Refusal(
                    status: 426, reason: "this is a WebSocket endpoint: it needs the headers Connection: Upgrade and Upgrade: websocket",
                    headers: ["Upgrade": "websocket"]
                )
            )
        }
        let version = headers.first("Sec-WebSocket-Version") ?? ""
        guard headers.list("Sec-WebSocket-Version") == ["13"] else {
            return .failure(
                Refusal(
                    status: 426, reason: "Sec-WebSocket-Version is \"\(version)\", only 13 is supported",
                    headers: ["Upgrade": "websocket", "Sec-WebSocket-Version": "13"]
                )
            )
        }
        guard let key = headers.first("Sec-WebSocket-Key"), Base64.decode(Substring(HeaderList.trim(Substring(key).utf8)))?.count == 16 else {
            return .failure(Refusal(status: 400, reason: "Sec-WebSocket-Key is missing or not 16 bytes in Base64"))
        }
        let offered = headers.list("Sec-WebSocket-Protocol")
        let prefersVersions = headers.first(Subprotocol.versionsHeader) == Subprotocol.versionsPreferred
        guard let selected = Subprotocol.choose(of: offered, spoken: spoken, prefersVersions: prefersVersions) else {
            let said =
                offered.isEmpty
                ? "Sec-WebSocket-Protocol is missing" : "none of the offered protocols \(offered.joined(separator: ", ")) is supported here"
            return .failure(
                Refusal(
                    status: 400, reason: "\(said); supported: \(spoken.joined(separator: ", "))",
                    unknownProtocols: offered.isEmpty ? nil : offered))
        }
        let trimmed = String(Substring(HeaderList.trim(Substring(key).utf8)))
        return .success(Offer(accept: accept(forKey: trimmed), offeredProtocols: offered, selectedProtocol: selected))
    }

    /// The response exactly as Couchbase Lite's own client requires it: `Connection` is a single word, `websocket` in lower case, one
    /// protocol, no extension, no empty value.
    ///
    /// - Parameter saysBothNames: tells a replicator of our own kind that this is one, too.
    static func switchingProtocols(accept: String, protocolName: String, correlationID: String? = nil, saysBothNames: Bool = false) -> String {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: \(accept)\r\nSec-WebSocket-Protocol: \(protocolName)\r\n"
            + (correlationID.map { "\(CorrelationID.header): \($0)\r\n" } ?? "")
            + (saysBothNames ? "\(Subprotocol.versionsHeader): \(Subprotocol.versionsSupported)\r\n" : "") + "\r\n"
    }

    /// Some clients omit the padding.
    private static func padded(_ text: Substring) -> String {
        String(text) + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    }

    /// User and password in an `Authorization: Basic` header; nil if there is none or it is malformed.
    static func basicCredentials(_ headers: HeaderList) -> BasicCredentials? {
        guard let value = headers.first("Authorization") else { return nil }
        let bytes = HeaderList.trim(Substring(value).utf8)
        let parts = bytes.split(separator: 0x20, maxSplits: 1)
        guard parts.count == 2, HeaderList.sameName(String(Substring(parts[0])), "Basic"),
            let decoded = Base64.decode(padded(Substring(HeaderList.trim(parts[1])))),
            let colon = decoded.firstIndex(of: UInt8(ascii: ":")),
            let username = String(validating: decoded[..<colon], as: UTF8.self),
            let password = String(validating: decoded[(colon + 1)...], as: UTF8.self)
        else { return nil }
        return BasicCredentials(username: username, password: password)
    }

    /// The token in an `Authorization: Bearer` header (RFC 6750); nil if there is none.
    static func bearerToken(_ headers: HeaderList) -> String? {
        guard let value = headers.first("Authorization") else { return nil }
        let parts = HeaderList.trim(Substring(value).utf8).split(separator: 0x20, maxSplits: 1)
        guard parts.count == 2, HeaderList.sameName(String(Substring(parts[0])), "Bearer") else { return nil }
        return String(Substring(HeaderList.trim(parts[1])))
    }
}
