import Digests
import Documents
import DocumentStore
import Encodings
import Interfaces
import NIOCore
import Synchronization

/// An attachment as CouchDB names it. Its digest is of a different kind than ours, so a previously received one is recognised only by its name.
struct AttachmentName: Hashable, Sendable {
    var id: DocumentID
    var name: String
    var digest: String
}

/// Attachments are blobs here: incoming ones are stored under our digest, outgoing ones are read from the blob store.
extension CouchDialect {
    // MARK: - Pull

    /// Stores the document's attachments and names them as blobs.
    ///
    /// - Parameters:
    ///   - ancestors: revisions of it that may be here: attachments they have in common are not fetched again.
    ///   - added: blobs named by the filter, which are not the peer's.
    ///   - arrived: called with the number of bytes that arrive.
    func withAttachments(
        _ document: FoundDocument, _ ancestors: [Version], butNot added: Set<BlobDigest> = [], arrived: @escaping @Sendable (Int) -> Void = { _ in }
    ) async throws -> FoundDocument {
        guard document.attachments.count <= limits.maximumBlobsPerDocument else {
            throw ReplicationError(
                domain: .http, code: 413,
                message: "document \(document.id) has \(document.attachments.count) attachments, max_blobs_per_document is \(limits.maximumBlobsPerDocument)")
        }
        let here = ancestors.isEmpty ? nil : try await attachmentsHere(document)
        var document = document
        for index in document.attachments.indices {
            guard var entry = document.attachments[index].value.asObject else { continue }
            if !added.isEmpty, let text = entry["digest"]?.asString, let digest = try? BlobDigest(text), added.contains(digest) { continue }
            let name = document.attachments[index].key
            let known = AttachmentName(id: document.id, name: name, digest: entry["digest"]?.asString ?? "")
            let md5 = Self.md5(entry).map { "md5-" + Base64.encode($0) }
            var reference = state.withLock { $0.attachments[known] }
            if reference == nil, let old = here?[name]?.asObject, Self.isSame(old, entry), let text = old["digest"]?.asString,
                let digest = try? BlobDigest(text)
            {
                reference = BlobReference(digest: digest, length: entry["length"]?.asUInt64, contentType: nil)
            }
            if let found = reference, try await !database.blobs.perform({ $0.contains(found.digest) }) { reference = nil }
            let blob: BlobReference
            if let reference { blob = reference } else { blob = try await take(known, entry, document, arrived) }
            state.withLock { state in
                if state.attachments.count >= CouchBounds.knownAttachments { state.attachments.removeAll() }
                state.attachments[known] = blob
            }
            (entry["digest"], entry["length"], entry["stub"], entry["data"]) = (.string(blob.digest.text), .int(blob.length ?? 0), true, .none)
            // By the digest known to its clients: keeping that beside ours makes the body of a revision the same here as there.
            entry["md5"] = md5.map { .string($0) }
            (entry["encoding"], entry["encoded_length"], entry["follows"]) = (.none, .none, .none)
            document.attachments[index].value = .object(entry)
        }
        return document
    }

    /// Why the attachments of one document cannot be obtained.
    ///
    /// - Throws: errors that concern the connection, or this side.
    func failure(of error: any Error) throws -> ReplicationError {
        if case StoreError.blobTooLarge? = error as? StoreError { return ReplicationError(domain: .http, code: 413, message: "\(error)") }
        var failure = ReplicationError(couch: error)
        // 500: the peer cannot read this attachment. Only this document waits, and others continue.
        guard failure.isOutOfSpace || failure.domain == .http && (failure.code == 500 || !failure.isTransient) else { throw error }
        // The remedy for such an answer from the database does not apply here.
        if failure.kind == .needsAction { failure.kind = .permanent }
        return failure
    }

    /// The attachments of the current revision here, if the one that comes descends from it.
    private func attachmentsHere(_ document: FoundDocument) async throws -> JSONObject? {
        let (name, id) = (collection, document.id)
        guard let collection = database.collection(name) else { return nil }
        let stored = try await database.read { transaction -> (RevisionID, [UInt8])? in
            guard let stored = try transaction.document(collection, id), let body = try transaction.body(collection, id, stored.revision) else { return nil }
            return (stored.revision, body)
        }
        guard let stored, document.history.contains(stored.0) else { return nil }
        return (try? JSONValue(stored: stored.1))?["_attachments"]?.asObject
    }

    /// An attachment is identified by the generation in which it was added.
    private static func isSame(_ old: JSONObject, _ new: JSONObject) -> Bool {
        guard let revpos = new["revpos"]?.asUInt64, let length = new["length"]?.asUInt64 else { return false }
        return old["revpos"]?.asUInt64 == revpos && old["length"]?.asUInt64 == length
    }

    /// Fetches one attachment into the blob store.
    private func take(
        _ known: AttachmentName, _ entry: JSONObject, _ document: FoundDocument, _ arrived: @escaping @Sendable (Int) -> Void
    ) async throws -> BlobReference {
        let name = known.name
        let type = entry["content_type"]?.asString
        if let length = entry["length"]?.asUInt64, length > UInt64(limits.maximumBlobBytes) { throw tooLarge(name, length, document) }
        // Compressed or not, this many bytes are stored.
        let length = entry["length"]?.asUInt64
        if let data = entry["data"]?.asString {
            guard let bytes = Base64.decode(data) else {
                throw ReplicationError(domain: .http, code: 400, message: "the attachment \(name) of document \(document.id) is not base64")
            }
            let digest = try await database.blobs.perform { blobs in
                let writer = try blobs.writer(length: length)
                try writer.append(bytes)
                return try writer.finish()
            }
            counters.moved(.pull, by: bytes.count)
            return BlobReference(digest: digest, length: UInt64(bytes.count), contentType: type)
        }
        let names = name.split(separator: "/", omittingEmptySubsequences: false).map { PercentEncoding.encode(String($0)) }.joined(separator: "/")
        let path = "/\(PercentEncoding.encode(document.id.text))/\(names)?rev=\(document.revision.text)"
        let (blobs, limit) = (database.blobs, UInt64(limits.maximumBlobBytes))
        let (key, md5) = (Self.key(known, path), Self.md5(entry))
        let (writer, begun) = try await begin(key, length: length, md5: md5)
        let counted = begun.counted
        var underWay = BlobUnderWay(.pull, document.id, name, size: length)
        underWay.bytes = begun.progress.count
        let ticket = counters.blobs.begin(underWay)
        defer { counters.blobs.end(ticket) }
        let writers = Mutex(writer)
        let received: @Sendable (Int) -> Void = { bytes in
            self.counters.exchanged(sent: 0, received: bytes)
            arrived(bytes)
        }
        var download = AttachmentDownload(path: path, length: length, md5: md5, owed: owed, received: received) {
            let old = writers.withLock { $0 }
            let fresh = try await blobs.perform { blobs in
                // Free its space first.
                old.cancel()
                return try blobs.writer(length: length)
            }
            writers.withLock { $0 = fresh }
        } take: { piece, total in
            guard total <= limit else { throw self.tooLarge(name, total, document) }
            self.counters.moved(ticket, by: counted.new(total))
            let writer = writers.withLock { $0 }
            try await blobs.perform { _ in try piece.withUnsafeReadableBytes { try writer.append($0) } }
        }
        download.progress = begun.progress
        let count: UInt64
        do { count = try await download.run(peer, environment.time) } catch {
            keep(writers.withLock { $0 }, begun, key, after: error)
            throw error
        }
        if let length = entry["length"]?.asUInt64, length != count {
            // The answer was complete: another attempt would yield the same, and other documents should not wait for it.
            throw ReplicationError(
                domain: .http, code: 422, message: "the attachment \(name) of document \(document.id) has \(count) bytes instead of \(length)")
        }
        let whole = writers.withLock { $0 }
        let digest = try await database.blobs.perform { _ in try whole.finish() }
        return BlobReference(digest: digest, length: count, contentType: type)
    }

    /// The MD5 of the attachment's own bytes; for one that the peer has compressed, it would be that of the compressed bytes.
    private static func md5(_ entry: JSONObject) -> [UInt8]? {
        guard entry["encoding"] == nil, let text = entry["digest"]?.asString, text.hasPrefix("md5-") else { return nil }
        return Base64.decode(String(text.dropFirst(4))).flatMap { $0.count == MD5.byteCount ? $0 : nil }
    }

    private func tooLarge(_ name: String, _ length: UInt64, _ document: FoundDocument) -> ReplicationError {
        ReplicationError(
            domain: .http, code: 413,
            message: "the attachment \(name) of document \(document.id) has \(length) bytes or more, limits: { max_blob_bytes } is \(limits.maximumBlobBytes)")
    }

    // MARK: - Push

    /// The document as JSON, including its attachments.
    func text(of document: OutgoingDocument) async throws -> [UInt8] {
        let content = document.body.isEmpty ? Array("{}".utf8) : document.body
        guard document.hasBlobs else { return try document.couchText(content, attachments: nil) }
        let (body, attachments) = try attachments(of: document, content)
        var inline = JSONObject()
        for member in attachments {
            guard let (entry, digest) = Self.entry(member) else { continue }
            let bytes = try await database.blobs.perform { try $0.read(digest) }
            var sent = Self.couch(entry)
            sent["data"] = .string(Base64.encode(bytes))
            counters.moved(.push, by: bytes.count)
            inline.members.append(.init(key: member.key, value: .object(sent)))
        }
        return try document.couchText(body, attachments: inline)
    }

    /// Sends a document with large attachments in a request of its own. False if it may be sent together with others.
    func writeAlone(_ document: OutgoingDocument) async throws -> Bool {
        let (body, attachments) = try attachments(of: document, document.body)
        var parts: [BlobPart] = []
        for member in attachments {
            guard let (entry, digest) = Self.entry(member) else { continue }
            let reader = try await database.blobs.perform { try $0.reader(digest) }
            parts.append(BlobPart(name: member.key, entry: Self.couch(entry), reader: reader))
        }
        guard parts.reduce(0, { $0 + $1.reader.size }) > CouchBounds.inlineBytes else { return false }
        // Checked first: once begun, a request could only be aborted along with its connection.
        for (_, digest) in attachments.compactMap(Self.entry) { try await database.blobs.check(digest, pieceBytes: limits.proofPieceBytes) }
        var follows = JSONObject()
        for part in parts {
            var entry = part.entry
            (entry["follows"], entry["length"]) = (true, .int(part.reader.size))
            follows.members.append(.init(key: part.name, value: .object(entry)))
        }
        let boundary = Hex.encode(environment.random.bytes(16))
        let multipart = MultipartDocument(json: try document.couchText(body, attachments: follows), parts: parts, boundary: boundary)
        var request = PeerRequest("PUT", "/\(PercentEncoding.encode(document.id.text))?new_edits=false")
        request.maximumAnswer = CouchBounds.smallAnswerBytes
        request.headers = [("Accept", "application/json"), ("Content-Type", "multipart/related; boundary=\"\(boundary)\"")]
        let (blobs, piece) = (database.blobs, limits.blobPieceBytes)
        let (counters, counted) = (counters, parts.map { _ in CountedOnce() })
        request.body = .pieces(length: multipart.length) { write in
            try await multipart.send(blobs, piece: piece, for: document.id, counters, counted, write)
        }
        let answer = try await ask(request)
        let what = "PUT \(request.path)"
        if answer.isGood {
            let said = try answer.json(what)
            guard said["ok"]?.asBool == true else { throw unexpected(said, in: what, wanted: "the word that the document was stored (ok: true)") }
        }
        let error = answer.isGood ? nil : ReplicationError(answer, to: what)
        if let error, answer.status == 401 { throw error }
        if let error, error.forbidsWriting, try await forbidsEverything() {
            tell([.push(slot: 0, .forbidden(nil, [document.id], error))])
        } else {
            self.answer(document, error)
        }
        return true
    }

    /// A 403 may concern one document or us: without write access, even an empty request gets it.
    private func forbidsEverything() async throws -> Bool {
        let answer = try await ask(PeerRequest("POST", "/_bulk_docs", json: ["new_edits": false, "docs": []], atMost: CouchBounds.smallAnswerBytes))
        return !answer.isGood && ReplicationError(answer, to: "POST _bulk_docs").forbidsWriting
    }

    /// The body, and the entries for its `_attachments`: its own, and blobs referenced elsewhere in it.
    private func attachments(of document: OutgoingDocument, _ content: [UInt8]) throws -> ([UInt8], [JSONObject.Member]) {
        let body = try LegacyAttachments.add(to: content, generation: document.version.generation)
        return (body, try JSONValue(stored: body)["_attachments"]?.asObject?.members ?? [])
    }

    private static func entry(_ member: JSONObject.Member) -> (JSONObject, BlobDigest)? {
        guard let entry = member.value.asObject, let text = entry["digest"]?.asString, let digest = try? BlobDigest(text) else { return nil }
        return (entry, digest)
    }

    /// The entry of an attachment as CouchDB expects it.
    private static func couch(_ entry: JSONObject) -> JSONObject {
        var sent = JSONObject()
        sent["content_type"] = .string(entry["content_type"]?.asString ?? "application/octet-stream")
        if let revpos = entry["revpos"] { sent["revpos"] = revpos }
        return sent
    }
}

/// How much of an attachment is included in the counters: when it is transferred again over another connection, it counts only once.
final class CountedOnce: Sendable {
    private let count = Mutex<UInt64>(0)

    /// How many of its first `total` bytes were not counted yet.
    func new(_ total: UInt64) -> Int {
        count.withLock { count in
            defer { count = max(count, total) }
            return Int(clamping: total - min(total, count))
        }
    }
}

/// An attachment sent after its document.
struct BlobPart: Sendable {
    var name: String
    var entry: JSONObject
    var reader: BlobReader
}

/// A document and its attachments as one multipart/related body, whose length is known in advance.
struct MultipartDocument: Sendable {
    var json: [UInt8]
    var parts: [BlobPart]
    var boundary: String

    private var head: String { "--\(boundary)\r\nContent-Type: application/json\r\n\r\n" }
    private var tail: String { "\r\n--\(boundary)--" }

    private func head(_ part: BlobPart) -> String {
        // The name is in the document; the parts follow in the document's order.
        let type = part.entry["content_type"]?.asString ?? "application/octet-stream"
        let isSafe = type.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
        return "\r\n--\(boundary)\r\nContent-Type: \(isSafe ? type : "application/octet-stream")\r\nContent-Length: \(part.reader.size)\r\n\r\n"
    }

    var length: Int {
        parts.reduce(head.utf8.count + json.count + tail.utf8.count) { $0 + head($1).utf8.count + Int(clamping: $1.reader.size) }
    }

    func send(
        _ blobs: BlobStore, piece: Int, for document: DocumentID, _ counters: ReplicationCounters, _ counted: [CountedOnce],
        _ write: (ByteBuffer) async throws -> Void
    ) async throws {
        try await write(ByteBuffer(string: head))
        try await write(ByteBuffer(bytes: json))
        for (part, counted) in zip(parts, counted) {
            try await write(ByteBuffer(string: head(part)))
            let ticket = counters.blobs.begin(BlobUnderWay(.push, document, part.name, size: part.reader.size))
            defer { counters.blobs.end(ticket) }
            var offset: UInt64 = 0
            while offset < part.reader.size {
                let (reader, from) = (part.reader, offset)
                let bytes = try await blobs.perform { _ in try reader.read(offset: from, count: piece) }
                guard !bytes.isEmpty else { throw ReplicationError(domain: .store, code: 500, message: "the blob \(part.name) ends early") }
                offset += UInt64(bytes.count)
                try await write(ByteBuffer(bytes: bytes))
                counters.moved(ticket, by: counted.new(offset))
            }
        }
        try await write(ByteBuffer(string: tail))
    }
}
