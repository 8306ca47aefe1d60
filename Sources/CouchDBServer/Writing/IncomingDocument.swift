import Documents
import HTTPServer

/// A document received from a CouchDB client, parsed.
struct IncomingDocument: Sendable {
    var id: String?
    var revision: RevisionID?
    /// Set if the document names a revision that cannot exist here; editing it is a conflict.
    var foreignRevision: HTTPError?
    /// From `_revisions`, newest first: the revision itself and its ancestors.
    var history: [RevisionID] = []
    var isDeleted = false
    /// Without any keys that begin with `_`.
    var body: [UInt8] = []
    /// Whether some object in the body may be a blob.
    var mayHoldBlobs = false
    var attachments: JSONObject?

    /// Keys about which CouchDB knows better than the client.
    private static let ignored: Set<String> = ["_revs_info", "_conflicts", "_deleted_conflicts", "_local_seq", "_exp", "_cv", "_sync"]

    /// Keys that CouchDB and PouchDB allow, but that are not supported here: only such a document is refused, not the whole request.
    private static let foreign: Set<String> = [
        "_access", "_removed", "_replication_id", "_replication_state", "_replication_state_reason", "_replication_state_time", "_replication_stats",
    ]

    init() {}

    /// - Throws: ``HTTPError`` 400 in CouchDB's words.
    init(_ parts: JSONParts, _ range: Range<Int>) throws(HTTPError) {
        guard parts.isObject(range) else { throw CouchError.badRequest("Document must be a JSON object") }
        mayHoldBlobs = parts.mayHoldBlobs
        body.reserveCapacity(range.count)
        body.append(UInt8(ascii: "{"))
        for place in parts.places(of: range) {
            if let key = parts.reservedKey(place.key) {
                try take(key, place.value, parts)
                continue
            }
            if body.count > 1 { body.append(UInt8(ascii: ",")) }
            parts.append(place.key, to: &body)
            body.append(UInt8(ascii: ":"))
            parts.append(place.value, to: &body)
        }
        body.append(UInt8(ascii: "}"))
        if foreignRevision == nil, let revision, let first = history.first, first != revision { throw CouchError.badRequest("_rev is not the first of _revisions") }
    }

    /// Errors in a document for which CouchDB refuses the whole request. Any other error affects only the document itself.
    ///
    /// - Parameter isLocal: whether the path says that it is a `_local` document.
    /// - Returns: whether it is a `_local` document.
    /// - Throws: ``HTTPError`` 400.
    static func check(_ parts: JSONParts, _ range: Range<Int>, isEdit: Bool, isLocal: Bool = false) throws(HTTPError) -> Bool {
        guard parts.isObject(range) else { throw CouchError.badRequest("Document must be a JSON object") }
        var (isNamed, isLocal) = (false, isLocal)
        var revision: String?
        for (key, value) in parts.reservedMembers(of: range) {
            switch key {
            case "_id":
                guard let id = parts.string(value) else { throw CouchError.illegalID("Document id must be a string") }
                guard !id.utf8.isEmpty else { throw CouchError.illegalID("Document id must not be empty") }
                // An id that is too long for us is valid in CouchDB.
                if id.utf8.first == UInt8(ascii: "_") { if case .local = try CouchID(id) { isLocal = true } }
            case "_rev":
                if parts.isNull(value) { continue }
                guard let text = parts.string(value) else { throw CouchError.badRequest("Invalid rev format") }
                if text.utf8.isEmpty { continue }
                isNamed = true
                revision = text
            case "_revisions":
                guard parts.isObject(value) else { throw invalid("_revisions must have start and ids") }
                isNamed = true
            case "_deleted":
                guard parts.flag(value) != nil else { throw invalid("Bad special document member: _deleted must be true or false") }
            case "_attachments":
                guard parts.isObject(value) else { throw invalid("_attachments must be an object") }
            case _ where ignored.contains(key) || !isLocal && foreign.contains(key): continue
            default: throw invalid("Bad special document member: \(key)")
            }
        }
        if isLocal { return true }
        if let revision { _ = try NamedRevision(revision) }
        guard isEdit || isNamed else {
            throw CouchError.badRequest("When `new_edits: false`, the document needs `_rev` or `_revisions` specified")
        }
        return false
    }

    private mutating func take(_ key: String, _ range: Range<Int>, _ parts: JSONParts) throws(HTTPError) {
        switch key {
        case "_id":
            guard let text = parts.string(range) else { throw CouchError.illegalID("Document id must be a string") }
            id = text
        case "_rev":
            if parts.isNull(range) { return }
            guard let text = parts.string(range) else { throw CouchError.badRequest("Invalid rev format") }
            if text.utf8.isEmpty { return }
            switch try NamedRevision(text) {
            case .known(let known): revision = known
            case .elsewhere: foreignRevision = Self.reason(text)
            }
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
                let text = "\(start - UInt64(index))-\(digest)"
                guard case .known(let known)? = try? NamedRevision(text) else {
                    foreignRevision = foreignRevision ?? Self.reason(text)
                    return
                }
                history.append(known)
            }
        case "_attachments":
            guard let object = try parts.value(range, of: key)?.asObject else { throw Self.invalid("_attachments must be an object") }
            attachments = object.isEmpty ? Optional.none : .some(object)
        case _ where Self.ignored.contains(key): return
        default: throw Self.invalid("Bad special document member: \(key)")
        }
    }

    private static func reason(_ text: String) -> HTTPError? {
        do throws(HTTPError) { _ = try NamedRevision.storable(text) } catch { return error }
        return nil
    }

    static func invalid(_ reason: String) -> HTTPError { HTTPError(400, reason, error: "doc_validation") }
}

extension JSONParts {
    /// The id in a document; nil if it is not a string.
    func id(of document: Range<Int>) -> String? { reservedMembers(of: document).first { $0.key == "_id" }.flatMap { string($0.value) } }
}

/// Where a document is stored, according to its id.
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
