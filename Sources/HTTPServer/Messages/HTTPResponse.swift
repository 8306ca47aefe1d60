import Encodings
import NIOCore

/// The answer to a request. `Content-Length` or chunking and `Connection` are added by the listener.
public struct HTTPResponse: Sendable {
    package enum Body: Sendable {
        case buffer(ByteBuffer)
        /// Written piece by piece at the client's pace. If a length is given, exactly that many bytes must follow. If the closure
        /// throws, the connection is closed, so that the client does not take the part for the whole. Not called for HEAD.
        case stream(length: Int? = nil, @Sendable (ResponseBodyWriter) async throws -> Void)
        /// The connection switches from HTTP to another protocol.
        case upgrade(ProtocolUpgrade)
    }

    package var status: Int
    package var headers: HeaderList
    package var body: Body

    package init(status: Int, headers: HeaderList = [:], body: Body = .buffer(ByteBuffer())) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// A response with JSON text as its body.
    package static func json(status: Int = 200, _ text: String, headers: HeaderList = [:]) -> HTTPResponse {
        json(status: status, ByteBuffer(string: text), headers: headers)
    }

    /// A response with JSON text as its body.
    package static func json(status: Int = 200, _ bytes: ByteBuffer, headers: HeaderList = [:]) -> HTTPResponse {
        var headers = headers
        headers.set("Content-Type", "application/json")
        return HTTPResponse(status: status, headers: headers, body: .buffer(bytes))
    }

    /// In the form of CouchDB's errors: `{"error": …, "reason": …}`.
    package static func error(status: Int, error: String, reason: String, headers: HeaderList = [:]) -> HTTPResponse {
        json(status: status, "{\"error\":\(JSONString.quoted(error)),\"reason\":\(JSONString.quoted(reason))}\n", headers: headers)
    }

    package static func stream(
        status: Int = 200, headers: HeaderList = [:], length: Int? = nil,
        _ produce: @escaping @Sendable (ResponseBodyWriter) async throws -> Void
    ) -> HTTPResponse {
        HTTPResponse(status: status, headers: headers, body: .stream(length: length, produce))
    }

    /// The response is not sent; the code that prepared the upgrade has to know.
    func abandonUpgrade() {
        if case .upgrade(let upgrade) = body { upgrade.abandoned() }
    }

    package static func upgrade(_ upgrade: ProtocolUpgrade) -> HTTPResponse {
        HTTPResponse(status: 101, body: .upgrade(upgrade))
    }
}

/// How a connection continues after HTTP.
package struct ProtocolUpgrade: Sendable {
    /// The new owner of a connection.
    package struct Takeover: Sendable {
        package var handler: any ChannelHandler & Sendable
        /// HTTP has left the pipeline, and any bytes after the request have been passed to the handler. Called on the event loop.
        package var completed: @Sendable () -> Void

        package init(handler: any ChannelHandler & Sendable, completed: @escaping @Sendable () -> Void) {
            self.handler = handler
            self.completed = completed
        }
    }

    /// The complete 101 response, including the empty line, byte for byte.
    package var response: ByteBuffer
    /// Called on the channel's event loop, before the response is sent. If it throws an ``HTTPError``, that is sent instead.
    package var takeOver: @Sendable (any Channel) throws -> Takeover
    /// The upgrade does not happen after all, because the client disconnected, its request was incomplete, or the listener is
    /// stopping.
    package var abandoned: @Sendable () -> Void

    package init(
        response: ByteBuffer, takeOver: @escaping @Sendable (any Channel) throws -> Takeover, abandoned: @escaping @Sendable () -> Void
    ) {
        self.response = response
        self.takeOver = takeOver
        self.abandoned = abandoned
    }
}
