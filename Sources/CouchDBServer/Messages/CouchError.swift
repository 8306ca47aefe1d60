import Documents
import DocumentStore
import HTTPServer
import Interfaces

/// CouchDB's error answers.
enum CouchError {
    static func badRequest(_ reason: String) -> HTTPError { HTTPError(400, reason) }
    static func query(_ reason: String) -> HTTPError { HTTPError(400, reason, error: "query_parse_error") }
    static func query(_ word: String, _ reason: String) -> HTTPError { HTTPError(400, reason, error: word) }
    static func missing(_ reason: String = "missing") -> HTTPError { HTTPError(404, reason) }
    static func noDatabase() -> HTTPError { HTTPError(404, "Database does not exist.") }
    static func conflict() -> HTTPError { HTTPError(409, "Document update conflict.") }
    static func forbidden(_ reason: String) -> HTTPError { HTTPError(403, reason) }
    static func illegalID(_ reason: String) -> HTTPError { HTTPError(400, reason, error: "illegal_docid") }
    /// The filter that the client named failed on the next document. The reason is not for clients.
    static func filterFailed(_ name: String) -> HTTPError {
        HTTPError(503, "the filter \(name) fails at present; the agent's log says why", error: "filter_failed", headers: ["Retry-After": "1"])
    }
    static func notServedHere(_ what: String) -> HTTPError { HTTPError(501, "\(what) is not served here", error: "not_implemented") }
    static func invalidJSON(_ error: JSONError) -> HTTPError { badRequest("invalid UTF-8 JSON: \(error)") }

    /// Maps a store error to CouchDB's words.
    static func from(_ error: StoreError) -> HTTPError {
        switch error {
        case .conflict, .conflictMoved, .checkpointConflict: conflict()
        case .notFound, .blobMissing: missing()
        case .bodyTooLarge, .localBodyTooLarge, .blobTooLarge: HTTPError(413, "\(error)", error: "document_too_large")
        case .bodyInvalid, .reservedKey, .historyInvalid, .tooManyBranches, .localIDInvalid: badRequest("\(error)")
        // Without the path, which is not for clients.
        case .diskFull(_, let detail): HTTPError(507, "there is no room for it (\(detail)); nothing of this write was stored", error: "insufficient_storage")
        case .tooManyIndexes: forbidden("\(error)")
        case .blobAltered: HTTPError(500, "the attachment cannot be read", error: "internal_server_error")
        case .documentDamaged: HTTPError(500, "the document cannot be read", error: "internal_server_error")
        default: HTTPError(503, "the database cannot be used now", headers: ["Retry-After": "1"])
        }
    }

    /// Maps the refusal of a single document to CouchDB's error word.
    static func from(_ error: ReplicationError) -> HTTPError {
        switch error.code {
        case 403: forbidden(error.message)
        case 404: missing(error.message)
        case 409: conflict()
        case 412: HTTPError(412, error.message, error: "missing_stub")
        case 401: HTTPError(401, error.message, error: "unauthorized")
        case 413: HTTPError(413, error.message, error: "document_too_large")
        case 507: HTTPError(507, error.message, error: "insufficient_storage")
        case 422, 400: HTTPError(400, error.message, error: "doc_validation")
        default: HTTPError(error.code, error.message, headers: error.code == 503 ? ["Retry-After": "1"] : [:])
        }
    }
}

/// The bytes of an attachment that the answer must contain cannot be read.
struct UnreadableAttachment: Error {
    var answer: HTTPError

    /// Nil for an error that does not concern the attachment.
    init?(_ name: String, _ error: StoreError) {
        switch error {
        case .blobAltered: answer = HTTPError(500, "the attachment \(name) is damaged here and cannot be given", error: "internal_server_error")
        case .blobMissing: answer = HTTPError(500, "the bytes of the attachment \(name) are not here", error: "internal_server_error")
        default: return nil
        }
    }
}

extension HTTPError {
    /// The error word for programs.
    var word: String {
        if let error { return error }
        return switch status {
        case 403: "forbidden"
        case 404: "not_found"
        case 409: "conflict"
        case 503: "service_unavailable"
        case 500...: "internal_server_error"
        default: "bad_request"
        }
    }

    /// The same for a replicated document that cannot be stored here. CouchDB and PouchDB skip documents that are forbidden; after any other error
    /// they start over with the same document, and never get past it.
    var ofReplication: HTTPError { [400, 409, 413].contains(status) ? HTTPError(403, reason, headers: headers) : self }
}
