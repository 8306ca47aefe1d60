/// What a connection's first bytes reveal about the peer: TLS, plain HTTP or neither.
enum FirstBytes: Equatable {
    /// The length of a TLS record header; fewer bytes reveal nothing.
    static let count = 5

    case tls
    /// A clear-text request (to a server) or response (to a client).
    case plainHTTP
    case other

    /// - Parameter bytes: at least ``count``.
    init(_ bytes: some Collection<UInt8>) {
        let first = Array(bytes.prefix(Self.count))
        // A handshake record or an alert, from SSL 3 or later: the version in the header is not the negotiated one.
        if first.count > 1, first[0] == 0x16 || first[0] == 0x15, first[1] == 3 {
            self = .tls
        } else if first.elementsEqual("HTTP/".utf8) || Self.methods.contains(where: { first.elementsEqual($0.utf8) }) {
            self = .plainHTTP
        } else {
            self = .other
        }
    }

    private static let methods = ["GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO", "PATCH", "COPY ", "CONNE", "TRACE", "PRI *"]

    /// The answer to plain HTTP: in the form of the listener's other errors, so that every client shows it.
    static var httpRefusal: String {
        let body = "{\"error\":\"tls_required\",\"reason\":\"this port speaks TLS: use https: or wss:\"}\n"
        return "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)"
    }
}
