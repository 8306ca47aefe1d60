/// One request, as soon as its header is complete; the body follows as it is asked for.
public struct HTTPRequest: Sendable {
    package var method: String
    /// The request target as sent: path and query.
    package var uri: String
    package var headers: HeaderList
    package var body: RequestBody
    /// What the route's pattern names; empty before a ``Router`` matched.
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

    /// Refuses a body that comes in another form than the route reads: it would be taken for what it is not.
    ///
    /// - Throws: ``HTTPError`` 415 that names the `Content-Encoding`.
    package func checkCoding(takesGzip: Bool = false) throws(HTTPError) {
        let codings = headers.list("Content-Encoding").filter { !HeaderList.sameName($0, "identity") }
        if body.isEmpty || codings.isEmpty || takesGzip && codings.count == 1 && Self.isGzip(codings[0]) { return }
        let taken = takesGzip ? "gzip" : "identity"
        throw HTTPError(
            415, "the body's Content-Encoding is \(codings.joined(separator: ", ").prefix(60)); \(takesGzip ? "gzip or none" : "none") is taken here",
            headers: ["Accept-Encoding": taken, "Connection": "close"])
    }

    /// The body is gzip; see ``checkCoding(takesGzip:)``.
    package var isGzipped: Bool { headers.list("Content-Encoding").contains(where: Self.isGzip) }

    private static func isGzip(_ coding: String) -> Bool { HeaderList.sameName(coding, "gzip") || HeaderList.sameName(coding, "x-gzip") }

    /// The first value of a key of the query, decoded; nil if the key is not there. A key without `=` has the empty value.
    ///
    /// - Throws: ``HTTPError`` 400 if the value is not well encoded.
    package func queryValue(_ key: String) throws(HTTPError) -> String? {
        guard let query else { return nil }
        return try RequestTarget.queryValue(key, in: query)
    }
}

/// Who sent a request, and where to.
package struct ConnectionInfo: Sendable {
    /// The client's address and port, for logs and authenticators.
    package var remoteAddress: String
    /// Whose limits it counts for: the address without its port, of IPv6 its /64 network.
    package var origin: String
    /// The address, without port, and the port that the client reached; nil on a unix domain socket.
    package var localAddress: (host: String, port: Int)?
    /// Who is behind the secure layer; nil without one.
    package var identity: (any PeerIdentity)?
    /// Tells long answers that the listener stops.
    package var drain: DrainSignal
    /// The request has to give way: it is answered 503 where nothing of its answer has gone yet, and else its connection ends.
    package var cut: @Sendable () -> Void = {}

    package init(remoteAddress: String, origin: String, drain: DrainSignal) {
        self.remoteAddress = remoteAddress
        self.origin = origin
        self.drain = drain
    }
}

/// What a handler beneath HTTP, such as TLS, tells about the client, fired through the pipeline as an inbound user event.
package protocol PeerIdentity: Sendable {}
