import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import NIOCore

/// GET, PUT, DELETE, POST and COPY of one document.
enum DocumentRoutes {
    // MARK: - Reading

    static func get(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        switch try? CouchID(id) {
        // No document can have such an id.
        case nil: throw CouchError.missing()
        case .document(let id): return try await get(call, id)
        case .local(let id): return try await LocalRoutes.get(call, id)
        case .design(let id):
            guard let stored = try await DesignDocuments(call: call).get(id) else { throw CouchError.missing() }
            if call.query.text("open_revs") != nil { return try await OpenRevisions.answer(call, design: stored, id) }
            guard !stored.isDeleted else { throw CouchError.missing("deleted") }
            var text = JSONWriter()
            text.append(DesignDocuments.shown(stored, withRevisions: try call.query.flag("revs")))
            return .couch(text, headers: ["ETag": "\"\(stored.revision.text)\""], call.database.blobs, keeping: call.answer)
        }
    }

    static func form(_ query: CouchQuery) throws(HTTPError) -> DocumentForm {
        var form = DocumentForm()
        let isMeta = try query.flag("meta")
        form.withRevisions = try query.flag("revs")
        form.withRevisionInfo = try query.flag("revs_info") || isMeta
        form.withConflicts = try query.flag("conflicts") || isMeta
        form.withDeletedConflicts = try query.flag("deleted_conflicts") || isMeta
        form.withLocalSequence = try query.flag("local_seq")
        if try query.flag("attachments") { form.attachments = .inline }
        if let since = try query.revisions("atts_since") {
            form.since = since.compactMap(\.known)
            form.attachments = .inline
        }
        return form
    }

    private static func get(_ call: CouchCall, _ id: DocumentID) async throws -> HTTPResponse {
        if call.query.text("open_revs") != nil { return try await OpenRevisions.answer(call, id) }
        var form = try form(call.query)
        let revision = try call.query.revision("rev")
        let latest = try call.query.flag("latest")
        let document = try await DocumentReading(call: call).one(
            id, revision.map { .named([$0], latest: latest) } ?? .current, withTree: true, withKept: form.withRevisionInfo)
        guard let found = document.revisions.first else { throw CouchError.missing() }
        if revision == nil, found.isDeleted { throw CouchError.missing("deleted") }
        let tag = "\"\(found.revision.text)\""
        var headers: HeaderList = ["Cache-Control": "must-revalidate"]
        if form.isOfRevision {
            headers.set("ETag", tag)
            if call.holds(tag) { return HTTPResponse(status: 304, headers: headers) }
        }
        let isMultipart = form.attachments != .stubs && Multipart.isAccepted(call.request, "multipart/related")
        if isMultipart { form.attachments = .follow }
        let text = try await DocumentText.of(found, form, call.database.blobs)
        if isMultipart, !text.following.isEmpty {
            return Multipart.related(text, boundary: Hex.encode(call.host.environment.random.bytes(16)), call, headers: headers)
        }
        let length = text.length.map { $0 + 1 }
        if let length, length <= CouchLimits.sliceBytes { return .json(ByteBuffer(bytes: text.bytes + [0x0A]), headers: headers) }
        return .pieces(headers: headers, length: length, call.database.blobs, keeping: call.answer) { writer in
            try await writer.write(text.pieces)
            try await writer.write("\n")
        }
    }

    // MARK: - Writing

    /// The revision that a write follows, from any of the places where the client may name it.
    static func parent(_ call: CouchCall) throws(HTTPError) -> RevisionID? {
        let inHeader = call.request.headers.first("If-Match").map { text in
            var text = Substring(text)
            if text.utf8.first == UInt8(ascii: "\""), text.utf8.last == UInt8(ascii: "\""), text.utf8.count >= 2 { text = text.dropFirst().dropLast() }
            return String(text)
        }
        let inQuery = call.query.text("rev").flatMap { $0.utf8.isEmpty ? nil : $0 }
        if let inHeader, let inQuery, !inHeader.utf8.elementsEqual(inQuery.utf8) {
            throw CouchError.badRequest("Document rev and etag have different values")
        }
        guard let text = inQuery ?? inHeader else { return nil }
        guard case .known(let revision) = try NamedRevision(text) else { throw CouchError.conflict() }
        return revision
    }

    static func put(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        if case .local(let id) = try CouchID(id) { return try await LocalRoutes.put(call, id) }
        try call.requireWriting()
        let isEdit = try call.query.flag("new_edits", default: true)
        let parent = try parent(call)
        if let boundary = Multipart.boundary(call.request, "multipart/related") {
            try call.request.checkCoding()
            var upload = RelatedUpload(call, boundary)
            let (document, following) = try await upload.receive()
            return try await call.host.memory.writing(document.body.count) {
                try await store(call, document, id: id, parent: parent, isEdit: isEdit, following: following)
            }
        }
        let (parts, carried) = try await call.carrying(.document, isNamed: true)
        return try await call.host.memory.writing(parts.bytes.count) {
            let document = try IncomingDocument(parts, parts.root)
            if let parent, let own = document.revision, own != parent, isEdit {
                throw CouchError.badRequest("Document rev from request body and query string have different values")
            }
            return try await store(call, document, id: id, parent: parent, isEdit: isEdit, carried: carried)
        }
    }

    static func post(_ call: CouchCall) async throws -> HTTPResponse {
        try call.requireWriting()
        let (parts, carried) = try await call.carrying(.document)
        return try await call.host.memory.writing(parts.bytes.count) { try await post(call, parts, carried) }
    }

    private static func post(_ call: CouchCall, _ parts: JSONParts, _ carried: [CarriedBlob]) async throws -> HTTPResponse {
        let document = try IncomingDocument(parts, parts.root)
        if let own = document.id, case .local(let id) = try CouchID(own) { return try await LocalRoutes.put(call, id, parts, parts.root) }
        let isEdit = try call.query.flag("new_edits", default: true)
        return try await call.telling(document.id) { try await store(call, document, id: nil, parent: nil, isEdit: isEdit, carried: carried) }
    }

    private static func store(
        _ call: CouchCall, _ document: IncomingDocument, id: String?, parent: RevisionID?, isEdit: Bool, following: [String: ReceivedBlob] = [:],
        carried: [CarriedBlob] = []
    ) async throws -> HTTPResponse {
        do {
            let (id, revision) = try await DocumentWriting(call: call).put(
                document, id: id, parent: parent, isEdit: isEdit, following: following, carried: carried)
            return stored(call, id, revision)
        } catch let error as HTTPError where !isEdit {
            // Afterwards nobody sees that it was too large.
            if let text = id ?? document.id, case .document(let named)? = try? CouchID(text) { call.tell([named], error, isMade: true) }
            throw error.ofReplication
        }
    }

    /// CouchDB's answer to a write. A write with `batch=ok` is durable all the same.
    static func stored(_ call: CouchCall, _ id: String, _ revision: RevisionID, status: Int = 201, attachment: String? = nil) -> HTTPResponse {
        var text = JSONWriter()
        text.raw("{\"ok\":true,\"id\":")
        text.string(id)
        let isBatch = call.query.text("batch") == "ok"
        text.text(isBatch ? "}" : ",\"rev\":\"\(revision.text)\"}")
        var headers: HeaderList = ["ETag": "\"\(revision.text)\""]
        if status == 201, let location = call.location(of: id, attachment: attachment) { headers.set("Location", location) }
        return .couch(isBatch ? 202 : status, text, headers: headers)
    }

    static func delete(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        if case .local(let id) = try CouchID(id) { return try await LocalRoutes.delete(call, id) }
        try call.requireWriting()
        let parent = try parent(call)
        if case .document(let id) = try CouchID(id) {
            let document = try await DocumentReading(call: call).one(id, evenDamaged: true)
            // Even if the tombstone is named: CouchDB does not create a tombstone from another one this way.
            if document.current == nil || document.isDeleted { throw CouchError.missing(document.isDeleted ? "deleted" : "missing") }
        }
        guard let parent else { throw CouchError.conflict() }
        var document = IncomingDocument()
        document.isDeleted = true
        document.body = Array("{}".utf8)
        let (id, revision) = try await DocumentWriting(call: call).put(document, id: id, parent: parent, isEdit: true)
        return stored(call, id, revision, status: 200)
    }

    static func copy(_ call: CouchCall, _ id: String) async throws -> HTTPResponse {
        try call.requireWriting()
        guard let header = call.request.headers.first("Destination") else { throw CouchError.badRequest("Destination header is mandatory for COPY.") }
        let target = RequestTarget.split(header)
        guard let destination = PercentEncoding.decode(target.path.utf8), !destination.utf8.isEmpty else {
            throw CouchError.badRequest("Destination header is not well percent-encoded")
        }
        let parent = try CouchQuery(target.query).text("rev").map { text throws(HTTPError) in
            guard case .known(let revision) = try NamedRevision(text) else { throw CouchError.conflict() }
            return revision
        }
        guard case .document(let source) = try CouchID(id) else { throw CouchError.badRequest("only documents can be copied") }
        let revision = try call.query.revision("rev")
        let found = try await DocumentReading(call: call).one(source, revision.map { .named([$0], latest: false) } ?? .current).revisions.first
        guard let found, !found.isDeleted || revision != nil else { throw CouchError.missing() }
        guard case .document(let id) = try CouchID(destination) else { throw CouchError.illegalID("documents are copied to documents") }
        // The attachments' bytes are those of the source, which is visible to the client, so no other data becomes accessible.
        let write = try DocumentWriting(call: call).copy(found, to: id, parent: parent)
        return stored(call, id.text, try await DocumentWriting(call: call).store(write))
    }
}
