/// A request whose header is complete; the body is read on demand.
public struct HTTPRequest: Sendable {
    package var method: String
    /// The request target as sent: path and query.
    package var uri: String
    package var headers: HeaderList
    package var body: RequestBody
    /// The values of the names in the route's pattern; empty before a ``Router`` has matched the request.
    package var parameters = RouteParameters()
    package var connection: ConnectionInfo

    package init(method: String, uri: String, headers: HeaderList, body: RequestBody, connection: ConnectionInfo) {
        self.method = method
        self.uri = uri
        self.headers = headers
        self.body = body
        self.connection = connection
    }

    /// The path as sent, without the query.
    package var path: String { RequestTarget.split(uri).path }
    /// The query as sent, without the question mark.
    package var query: String? { RequestTarget.split(uri).query }

    /// Refuses a body with an encoding that the route does not support: it would be misinterpreted.
    ///
    /// - Throws: ``HTTPError`` 415 naming the `Content-Encoding`.
    package func checkCoding(takesGzip: Bool = false) throws(HTTPError) {
        let codings = headers.list("Content-Encoding").filter { !HeaderList.sameName($0, "identity") }
        if body.isEmpty || codings.isEmpty || takesGzip && codings.count == 1 && Self.isGzip(codings[0]) { return }
        let taken = takesGzip ? "gzip" : "identity"
        throw HTTPError(
            415, "the body's Content-Encoding is \(codings.joined(separator: ", ").prefix(60)); \(takesGzip ? "gzip or none" : "none") is accepted here",
            headers: ["Accept-Encoding": taken, "Connection": "close"])
    }

    /// The body is gzip; see ``checkCoding(takesGzip:)``.
    package var isGzipped: Bool { headers.list("Content-Encoding").contains(where: Self.isGzip) }

    private static func isGzip(_ coding: String) -> Bool { HeaderList.sameName(coding, "gzip") || HeaderList.sameName(coding, "x-gzip") }

    /// The first value of a key in the query, decoded; nil if there is none. A key without `=` has the empty value.
    ///
    /// - Throws: ``HTTPError`` 400 if the value is not encoded correctly.
    package func queryValue(_ key: String) throws(HTTPError) -> String? {
        guard let query else { return nil }
        return try RequestTarget.queryValue(key, in: query)
    }

    /// The keys in the query, decoded, in their order.
    ///
    /// - Throws: ``HTTPError`` 400 if one is not encoded correctly.
    package func queryKeys() throws(HTTPError) -> [String] {
        guard let query else { return [] }
        return try RequestTarget.queryKeys(in: query)
    }
}

/// Who sent a request, and to which address.
package struct ConnectionInfo: Sendable {
    /// The client's address and port, for logs and authenticators.
    package var remoteAddress: String
    /// The origin for limits: the address without its port; for IPv6, its /64 network.
    package var origin: String
    /// The address (without port) and the port that the client connected to; nil for a unix domain socket.
    package var localAddress: (host: String, port: Int)?
    /// The identity established by the secure layer; nil without one.
    package var identity: (any PeerIdentity)?
    /// Tells long answers that the listener is stopping.
    package var drain: DrainSignal
    /// Makes the request give way: it is answered with 503 if no part of its answer has been sent, otherwise its connection is closed.
    package var cut: @Sendable () -> Void = {}

    package init(remoteAddress: String, origin: String, drain: DrainSignal) {
        self.remoteAddress = remoteAddress
        self.origin = origin
        self.drain = drain
    }
}

/// What a handler below HTTP, such as TLS, knows about the client; fired through the pipeline as an inbound user event.
package protocol PeerIdentity: Sendable {}
