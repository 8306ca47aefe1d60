import NIOCore
import NIOHTTP1

/// Writes the header of an HTTP/1.1 response.
enum ResponseHead {
    /// How the end of the body is marked.
    enum Framing: Equatable {
        case length(Int)
        case chunked
        /// HTTP/1.0 clients do not understand chunks.
        case untilClose
        /// 1xx, 204 and 304 have no body.
        case none
    }

    /// Omits fields that the listener sets itself, or that cannot be sent as they are.
    static func write(status: Int, headers: HeaderList, framing: Framing, keepAlive: Bool, into out: inout ByteBuffer) {
        out.writeString("HTTP/1.1 \(status) \(HTTPResponseStatus(statusCode: status).reasonPhrase)\r\n")
        for field in headers where HeaderList.isSendable(field.name, field.value) && !field.value.isEmpty && !isOurs(field.name) {
            out.writeString("\(field.name): \(field.value)\r\n")
        }
        switch framing {
        case .length(let count): out.writeString("Content-Length: \(count)\r\n")
        case .chunked: out.writeStaticString("Transfer-Encoding: chunked\r\n")
        case .untilClose, .none: break
        }
        out.writeStaticString(keepAlive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n")
    }

    static func isBodyless(_ status: Int) -> Bool {
        status < 200 || status == 204 || status == 304
    }

    private static func isOurs(_ name: String) -> Bool {
        ["Content-Length", "Transfer-Encoding", "Connection"].contains { HeaderList.sameName($0, name) }
    }

    /// CouchDB's word for a status.
    static func errorName(_ status: Int) -> String {
        switch status {
        case 400: "bad_request"
        case 401: "unauthorized"
        case 403: "forbidden"
        case 404: "not_found"
        case 405: "method_not_allowed"
        case 408: "timeout"
        case 409: "conflict"
        case 413: "too_large"
        case 426: "upgrade_required"
        case 429: "too_many_requests"
        case 431: "headers_too_large"
        case 503: "service_unavailable"
        case 500...: "internal_server_error"
        default: "error"
        }
    }
}
