import Documents
import HTTPServer

/// The name and password in `POST /_session`: a form, JSON, or Basic credentials.
package enum CouchLogin {
    /// - Throws: ``HTTPError`` 400, 413, 415.
    package static func credentials(_ request: HTTPRequest) async throws -> (name: String, password: String) {
        var body = request.body
        body.limit = NamedLimit("couchdb_login_bytes", CouchLimits.loginBytes)
        let bytes = Array(try await body.collect().readableBytesView)
        let type = request.headers.first("Content-Type") ?? "application/x-www-form-urlencoded"
        let media = String(Substring(type.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }))
        var name: String?
        var password: String?
        switch media {
        case "application/json":
            guard let value = try? JSONValue(parsing: bytes) else { throw CouchError.badRequest("Request body must be a JSON object") }
            (name, password) = (value["name"]?.asString ?? value["username"]?.asString, value["password"]?.asString)
        case "application/x-www-form-urlencoded":
            let form = try CouchQuery(String(decoding: bytes, as: UTF8.self))
            (name, password) = (form.text("name") ?? form.text("username"), form.text("password"))
        default: throw HTTPError(415, "Content-Type must be application/x-www-form-urlencoded or application/json", error: "bad_content_type")
        }
        guard let name, let password else { throw CouchError.badRequest("request body must contain a username and a password") }
        return (name, password)
    }
}
