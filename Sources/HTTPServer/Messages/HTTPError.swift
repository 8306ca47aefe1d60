/// An error thrown by a route and sent as `{"error": …, "reason": …}`.
package struct HTTPError: Error, CustomStringConvertible {
    package var status: Int
    /// One word for programs; nil for CouchDB's word for the status.
    package var error: String?
    /// A sentence for people.
    package var reason: String
    package var headers: HeaderList
    /// The `limits.memory`, in bytes, with which the request would be taken; nil if another limit is exceeded, or none.
    package var neededMemory: Int?

    package init(_ status: Int, _ reason: String, error: String? = nil, headers: HeaderList = [:]) {
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers
    }

    package var description: String { "HTTP \(status): \(reason)" }

    package var response: HTTPResponse {
        .error(status: status, error: error ?? ResponseHead.errorName(status), reason: reason, headers: headers)
    }
}

/// A limit and its name, for messages about exceeding it.
package struct NamedLimit: Sendable {
    package var name: String
    package var value: Int

    package init(_ name: String, _ value: Int) {
        self.name = name
        self.value = value
    }

    /// For bodies that are streamed and not stored in memory.
    package static let unlimited = NamedLimit("no limit", .max)

    /// Also ends the connection: the rest of the body is not worth reading.
    var tooLarge: HTTPError {
        HTTPError(413, "the request's body has more than \(name) (\(value)) allows", headers: ["Connection": "close"])
    }
}
