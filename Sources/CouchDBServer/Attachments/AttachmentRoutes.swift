import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import NIOCore
import Replication

/// `/DATABASE/DOCUMENT/ATTACHMENT`.
enum AttachmentRoutes {
    private static func id(_ text: String) throws(HTTPError) -> DocumentID {
        if text.utf8.elementsEqual("_local".utf8) { throw CouchError.badRequest("_local documents do not accept attachments.") }
        guard case .document(let id) = try CouchID(text) else { throw CouchError.missing("Document is missing attachment") }
        return id
    }

    static func get(_ call: CouchCall, _ document: String, _ name: String) async throws -> HTTPResponse {
        let id = try id(document)
        let revision = try call.query.revision("rev")
        let found = try await DocumentReading(call: call).one(id, revision.map { .named([$0], latest: false) } ?? .current).revisions.first
        guard let found, !found.isDeleted || revision != nil else { throw CouchError.missing() }
        guard let entry = AttachmentEntry.all(of: found).first(where: { $0.name.utf8.elementsEqual(name.utf8) }), let digest = entry.blob else {
            throw CouchError.missing("Document is missing attachment")
        }
        guard let size = try await call.database.blobs.perform({ $0.size(digest) }) else { throw CouchError.missing("the attachment's bytes are not here") }
        let plain = String(entry.shownDigest.utf8.drop { $0 != UInt8(ascii: "-") }.dropFirst()) ?? ""
        let tag = "\"\(plain)\""
        var headers: HeaderList = [
            "ETag": tag, "Cache-Control": "must-revalidate", "Accept-Ranges": "bytes", "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        ]
        if entry.shownDigest.utf8.starts(with: "md5-".utf8) { headers.set("Content-MD5", plain) }
        if call.holds(tag) { return HTTPResponse(status: 304, headers: headers) }
        headers.set("Content-Type", Multipart.fieldText(entry.contentType))
        var (start, count, status) = (UInt64(0), size, 200)
        // A range is useless if the client has the beginning of a different version.
        let isSame = call.request.headers.first("If-Range").map { $0 == tag } ?? true
        if isSame, let field = call.request.headers.first("Range") {
            switch ByteRange(field, size: size) {
            case .whole: break
            case .part(let from, let length):
                (start, count, status) = (from, length, 206)
                headers.set("Content-Range", "bytes \(from)-\(from + length - 1)/\(size)")
            case .outside:
                throw HTTPError(
                    416, "the attachment has \(size) bytes", error: "requested_range_not_satisfiable", headers: ["Content-Range": "bytes */\(size)"])
            }
        }
        // A range cannot be verified, and a whole blob only at its end.
        try await call.database.blobs.check(digest, pieceBytes: CouchLimits.pieceBytes)
        let (first, length) = (start, count)
        return .stream(status: status, headers: headers, length: Int(clamping: count)) { writer in
            var pieces = PieceWriter(writer, call.database.blobs)
            try await pieces.forEachPiece(of: digest, from: first, count: length) { try await $0.write($1) }
            try await pieces.flush()
        }
    }

    static func put(_ call: CouchCall, _ document: String, _ name: String) async throws -> HTTPResponse {
        try call.requireWriting()
        let id = try id(document)
        guard name.utf8.first != UInt8(ascii: "_") else { throw CouchError.badRequest("Attachment name '\(name)' starts with prohibited character '_'") }
        var body = call.request.body
        let isGzipped = call.request.isGzipped
        // The store limits the uncompressed size.
        body.limit = isGzipped ? .unlimited : call.blobLimit
        try body.checkDeclaredLength()
        var upload = try await BlobUpload(call, isGzipped: isGzipped, length: isGzipped ? nil : body.declaredLength)
        for try await piece in body { try await upload.append(Array(piece.readableBytesView)) }
        let blob = try await upload.finish()
        if let claimed = call.request.headers.first("Content-MD5"), claimed != Base64.encode(blob.md5) {
            throw HTTPError(400, "Possible message corruption.", error: "content_md5_mismatch")
        }
        let type = call.request.headers.first("Content-Type") ?? "application/octet-stream"
        return try await change(call, id, name) { entries, generation in
            entries.removeAll { $0.name.utf8.elementsEqual(name.utf8) }
            entries.append(
                AttachmentEntry(
                    name: name, contentType: type, length: blob.length, digest: blob.digest, md5: blob.md5, revisionPosition: generation))
            return true
        }
    }

    static func delete(_ call: CouchCall, _ document: String, _ name: String) async throws -> HTTPResponse {
        try call.requireWriting()
        return try await change(call, try id(document), name, status: 200) { entries, _ in
            let count = entries.count
            entries.removeAll { $0.name.utf8.elementsEqual(name.utf8) }
            return entries.count < count
        }
    }

    /// Saves the document with changed attachments.
    private static func change(
        _ call: CouchCall, _ id: DocumentID, _ name: String, status: Int = 201, _ body: (inout [AttachmentEntry], UInt64) -> Bool
    ) async throws -> HTTPResponse {
        let parent = try DocumentRoutes.parent(call)
        let found = try await DocumentReading(call: call).one(id, parent.map { .named([$0], latest: false) } ?? .current).revisions.first
        if parent == nil, let found, !found.isDeleted { throw CouchError.conflict() }
        if parent != nil, found == nil { throw CouchError.conflict() }
        let base = found.flatMap { $0.isDeleted ? nil : $0 }
        let parts = JSONParts(checked: base?.body ?? Array("{}".utf8))
        let members = parts.members(of: parts.root)
        var entries = AttachmentEntry.all(parts.member("_attachments", of: parts.root).flatMap { parts.value($0) })
        guard body(&entries, (parent?.generation ?? 0) + 1) else { throw CouchError.missing("Document is missing attachment") }
        var text = JSONWriter()
        text.raw("{")
        text.list(members.lazy.filter { $0.key != "_attachments" }) { text, member in
            text.string(member.key)
            text.raw(":")
            text.append(parts.bytes[member.value])
        }
        if !entries.isEmpty {
            text.raw(text.bytes.count > 1 ? ",\"_attachments\":" : "\"_attachments\":")
            text.value(.object(JSONObject(entries.map { JSONObject.Member(key: $0.name, value: .object($0.members)) })))
        }
        text.raw("}")
        let write = PeerWriting.Write(id: id, revision: .edit(of: parent), isDeleted: false, body: text.bytes)
        return DocumentRoutes.stored(call, id.text, try await DocumentWriting(call: call).store(write), status: status, attachment: name)
    }
}

/// A single range in a `Range` header (RFC 9110); several ranges are answered with the whole.
enum ByteRange: Equatable {
    case whole
    case part(from: UInt64, count: UInt64)
    case outside

    init(_ field: String, size: UInt64) {
        self = .whole
        guard field.utf8.starts(with: "bytes=".utf8) else { return }
        let ends = field.utf8.dropFirst(6).split(separator: UInt8(ascii: "-"), maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2 else { return }
        let (first, last) = (String(Substring(ends[0])), String(Substring(ends[1])))
        switch (UInt64(first), UInt64(last)) {
        case (nil, let count?) where first.utf8.isEmpty:
            guard count > 0, size > 0 else {
                self = .outside
                return
            }
            self = .part(from: size - min(count, size), count: min(count, size))
        case (let from?, let to):
            guard to != nil || last.utf8.isEmpty else { return }
            if let to, to < from { return }
            guard from < size else {
                self = .outside
                return
            }
            self = .part(from: from, count: min(to ?? .max, size - 1) - from + 1)
        default: return
        }
    }
}
