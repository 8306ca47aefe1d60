/// Answers a method on a path.
package struct Route: Sendable {
    package var method: String
    /// `/db/:name/doc/*id`: a literal component, `:` and a name for any single component, `*` and a name for all the rest, at least one.
    package var pattern: String
    /// For the body; nil for the listener's `body_bytes`.
    package var bodyLimit: NamedLimit?
    /// Whether it accepts bodies with `Content-Encoding: gzip`.
    package var takesGzip: Bool
    package var respond: HTTPListener.Responder

    package init(
        _ method: String, _ pattern: String, bodyLimit: NamedLimit? = nil, takesGzip: Bool = false, _ respond: @escaping HTTPListener.Responder
    ) {
        self.method = method
        self.pattern = pattern
        self.bodyLimit = bodyLimit
        self.takesGzip = takesGzip
        self.respond = respond
    }

    /// Also answers HEAD, unless there is a separate route for that.
    package static func get(_ pattern: String, _ respond: @escaping HTTPListener.Responder) -> Route {
        Route("GET", pattern, respond)
    }

    package static func post(_ pattern: String, bodyLimit: NamedLimit? = nil, _ respond: @escaping HTTPListener.Responder) -> Route {
        Route("POST", pattern, bodyLimit: bodyLimit, respond)
    }

    package static func put(_ pattern: String, bodyLimit: NamedLimit? = nil, _ respond: @escaping HTTPListener.Responder) -> Route {
        Route("PUT", pattern, bodyLimit: bodyLimit, respond)
    }

    package static func delete(_ pattern: String, _ respond: @escaping HTTPListener.Responder) -> Route {
        Route("DELETE", pattern, respond)
    }
}

/// The components of a path that the route's pattern names, percent-decoded.
package struct RouteParameters: Sendable {
    private var values: [(name: String, value: String)] = []

    init() {}

    init(names: [String], values: [String]) {
        self.values = zip(names, values).map { (name: $0, value: $1) }
    }

    /// - Throws: ``HTTPError`` 500 if the pattern has no such name, which is a programming error.
    package func require(_ name: String) throws(HTTPError) -> String {
        for (known, value) in values where known.utf8.elementsEqual(name.utf8) { return value }
        throw HTTPError(500, "the route has no parameter \(name)")
    }
}
