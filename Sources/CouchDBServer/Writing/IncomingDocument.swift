import Documents
import HTTPServer

/// A document as a client of CouchDB sends it, taken apart.
struct IncomingDocument: Sendable {
    var id: String?
    var revision: RevisionID?
    /// Of `_revisions`, the newest first: the revision itself and its ancestors.
    var history: [RevisionID] = []
    var isDeleted = false
    /// Without any key that begins with `_`.
    var body: [UInt8] = []
    var attachments: JSONObject?

    /// Keys that say what CouchDB knows better itself.
    private static let ignored: Set<String> = ["_revs_info", "_conflicts", "_deleted_conflicts", "_local_seq", "_exp", "_cv", "_sync"]

    init() {}

    /// - Throws: ``HTTPError`` 400 in CouchDB's words.
    init(_ parts: JSONParts, _ range: Range<Int>) throws(HTTPError) {
        guard parts.isObject(range) else { throw CouchError.badRequest("Document must be a JSON object") }
        var text = JSONWriter()
        text.raw("{")
        var isFirst = true
        for (key, value) in parts.members(of: range) {
            guard key.utf8.first == UInt8(ascii: "_") else {
                if !isFirst { text.raw(",") }
                isFirst = false
                text.string(key)
                text.raw(":")
                text.append(parts.bytes[value])
                continue
            }
            try take(key, value, parts)
        }
        text.raw("}")
        body = text.bytes
        if let revision, let first = history.first, first != revision { throw CouchError.badRequest("_rev is not the first of _revisions") }
    }

    private mutating func take(_ key: String, _ range: Range<Int>, _ parts: JSONParts) throws(HTTPError) {
        switch key {
        case "_id":
            guard let text = parts.string(range) else { throw CouchError.illegalID("Document id must be a string") }
            id = text
        case "_rev":
            if parts.isNull(range) { return }
            guard let text = parts.string(range) else { throw CouchError.badRequest("Invalid rev format") }
            if !text.utf8.isEmpty { revision = try RevisionID(couch: text) }
        case "_deleted":
            guard let flag = parts.flag(range) else { throw Self.invalid("Bad special document member: _deleted must be true or false") }
            isDeleted = flag
        case "_revisions":
            let value = try parts.value(range, of: key)
            guard let start = value?["start"]?.asUInt64, let ids = value?["ids"]?.asArray else {
                throw Self.invalid("_revisions must have start and ids")
            }
            guard UInt64(ids.count) <= start else { throw Self.invalid("_revisions.ids has more entries than start says") }
            for (index, id) in ids.enumerated() {
                guard let digest = id.asString else { throw Self.invalid("RevId isn't a string") }
                history.append(try RevisionID(couch: "\(start - UInt64(index))-\(digest)"))
            }
        case "_attachments":
            guard let object = try parts.value(range, of: key)?.asObject else { throw Self.invalid("_attachments must be an object") }
            attachments = object.isEmpty ? Optional.none : .some(object)
        case _ where Self.ignored.contains(key): return
        default: throw Self.invalid("Bad special document member: \(key)")
        }
    }

    static func invalid(_ reason: String) -> HTTPError { HTTPError(400, reason, error: "doc_validation") }
}

/// What a document's id says of where it is kept.
enum CouchID: Sendable {
    case document(DocumentID)
    /// With its prefix.
    case design(String)
    case local(String)

    /// - Throws: ``HTTPError`` 400 `illegal_docid`.
    init(_ text: String) throws(HTTPError) {
        if text.utf8.starts(with: "_design/".utf8), text.utf8.count > 8, text.utf8.count <= 240 {
            self = .design(text)
        } else if text.utf8.starts(with: "_local/".utf8), text.utf8.count > 7 {
            self = .local(String(text.dropFirst(7)))
        } else if text.utf8.first == UInt8(ascii: "_") {
            throw CouchError.illegalID("Only reserved document ids may start with underscore.")
        } else {
            do { self = .document(try DocumentID(text)) } catch { throw CouchError.illegalID("\(error)") }
        }
    }
}
