import Digests
import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import Selectors

/// A blob that was received with a request.
struct ReceivedBlob: Sendable {
    var digest: BlobDigest
    var md5: [UInt8]
    var length: UInt64
    /// From the header of the part that contained it, if any.
    var contentType: String?
}

/// Turns the attachments of a received document into blobs stored here.
///
/// A client may only refer to bytes that it sent with the document, or that belong to a revision of this document visible to it: if a digest alone
/// were enough, it could read other users' data.
struct AttachmentIntake: Sendable {
    let reading: DocumentReading
    let blobs: BlobStore
    let arrived: ArrivedBlobs
    /// Attachments that were taken out of the request's text, which contains their numbers instead.
    let carried: [CarriedBlob]

    init(_ call: CouchCall, _ carried: [CarriedBlob] = []) {
        (reading, blobs, arrived, self.carried) = (DocumentReading(call: call), call.database.blobs, call.arrived, carried)
    }

    /// - Parameters:
    ///   - isEdit: whether the revision is created here, from a client's edit.
    ///   - parents: revisions whose attachments stubs may refer to, nearest first.
    ///   - following: the parts after the document, by the names of the attachments that they contain.
    /// - Returns: the body, with `_attachments` if there are any.
    /// - Throws: ``HTTPError`` 412 `missing_stub`, 400.
    func body(
        of document: IncomingDocument, _ id: DocumentID, generation: UInt64, isEdit: Bool, parents: [RevisionID], following: [String: ReceivedBlob] = [:]
    ) async throws -> [UInt8] {
        guard document.attachments != nil || document.mayHoldBlobs else { return document.body }
        let before = try await known(id, parents)
        var allowed = Set(before.blobs)
        var entries: [JSONObject.Member] = []
        for (name, entry) in (document.attachments?.members ?? []).map({ ($0.key, $0.value) }) {
            guard let object = entry.asObject else { throw IncomingDocument.invalid("the entry \"\(name)\" of _attachments must be an object") }
            let taken = try await attachment(name, object, of: id, generation, isEdit: isEdit, before, following)
            if let digest = taken.blob { allowed.insert(digest) }
            entries.append(JSONObject.Member(key: name, value: .object(taken.members)))
        }
        var body = document.body
        if !entries.isEmpty {
            var text = JSONWriter()
            text.append(body.dropLast())
            if body.count > 2 { text.raw(",") }
            text.raw("\"_attachments\":")
            text.value(.object(JSONObject(entries)))
            text.raw("}")
            body = text.bytes
        }
        let named: [BlobReference]
        do { named = try BlobReferences.find(in: body) } catch { throw CouchError.invalidJSON(error) }
        if let strange = named.first(where: { !allowed.contains($0.digest) }) {
            throw Self.missingStub("the document names the blob \(strange.digest), which did not come with it")
        }
        if let wrong = try await blobs.wrongLength(named) { throw CouchError.badRequest(wrong) }
        return body
    }

    private static func missingStub(_ reason: String) -> HTTPError { HTTPError(412, reason, error: "missing_stub") }

    private func attachment(
        _ name: String, _ entry: JSONObject, of id: DocumentID, _ generation: UInt64, isEdit: Bool, _ before: Known, _ following: [String: ReceivedBlob]
    ) async throws -> AttachmentEntry {
        if entry["stub"]?.asBool != true, name.utf8.first == UInt8(ascii: "_") {
            throw CouchError.badRequest("Attachment name '\(name)' starts with prohibited character '_'")
        }
        let type = entry["content_type"]?.asString
        // Bytes sent with an edit are new in that revision, whatever the client read before.
        let position = isEdit ? generation : entry["revpos"]?.asUInt64.map { min($0, generation) } ?? generation
        if let number = entry["data"]?.asUInt64, number < carried.count {
            let blob = try carried[Int(number)].get()
            return AttachmentEntry(
                name: name, contentType: type ?? "application/octet-stream", length: blob.length, digest: blob.digest, md5: blob.md5,
                revisionPosition: position)
        }
        if let data = entry["data"] {
            guard let text = data.asString, let bytes = Base64.decode(text) else {
                throw CouchError.badRequest("Invalid attachment data for \(name)")
            }
            let digest: BlobDigest
            do { digest = try await blobs.perform { [arrived] in try $0.install(bytes, arrived: arrived) } } catch let error as StoreError {
                throw CouchError.from(error)
            }
            return AttachmentEntry(
                name: name, contentType: type ?? "application/octet-stream", length: UInt64(bytes.count), digest: digest, md5: MD5.hash(bytes),
                revisionPosition: position)
        }
        if entry["follows"]?.asBool == true {
            guard let part = following[name] else { throw CouchError.badRequest("the attachment \(name) follows, but did not come") }
            return AttachmentEntry(
                name: name, contentType: type ?? part.contentType ?? "application/octet-stream", length: part.length, digest: part.digest,
                md5: part.md5, revisionPosition: position)
        }
        guard let found = before.entries[name] else { throw Self.missingStub("Invalid attachment stub in \(id.text) for \(name)") }
        return found
    }

    /// The attachments of those revisions that are visible to the client.
    private struct Known: Sendable {
        var entries: [String: AttachmentEntry] = [:]
        var blobs: Set<BlobDigest> = []
    }

    private func known(_ id: DocumentID, _ parents: [RevisionID]) async throws -> Known {
        var known = Known()
        var revisions = try await reading.one(id, .named(parents, latest: false), evenDamaged: true).revisions
        revisions += try await reading.one(id, evenDamaged: true).revisions
        for found in revisions {
            for entry in AttachmentEntry.all(of: found) where known.entries[entry.name] == nil { known.entries[entry.name] = entry }
            for reference in (try? BlobReferences.find(in: found.body)) ?? [] { known.blobs.insert(reference.digest) }
        }
        return known
    }
}

extension HTTPError {
    /// Maps a store error to an answer.
    init(couch error: any Error) {
        switch error {
        case let error as HTTPError: self = error
        case let error as UnreadableAttachment: self = error.answer
        case let error as StoreError: self = CouchError.from(error)
        case let error as ReplicationError: self = CouchError.from(error)
        case let error as JSONError: self = CouchError.invalidJSON(error)
        case let error as SelectorError where error.word == "document_too_large": self = HTTPError(413, error.reason, error: error.word)
        case let error as SelectorError: self = CouchError.query(error.word, error.reason)
        default: self = HTTPError(500, "the request could not be answered")
        }
    }
}
