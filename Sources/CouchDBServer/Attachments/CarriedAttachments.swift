import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore

/// The outcome of storing an attachment that was embedded in a batch or document.
typealias CarriedBlob = Result<ReceivedBlob, HTTPError>

extension CouchCall {
    /// For a whole `_bulk_docs` request, or a document. PouchDB sends a hundred documents at once with all their attachments, and sends the same ones
    /// again if they are refused as too large.
    static let batchLimit = NamedLimit("couchdb_batch_bytes", CouchLimits.batchBytes)

    /// The body of a `_bulk_docs` request or a document, checked to be JSON. If it is, or may be, too long to be held in memory, the attachments
    /// embedded in it are stored as they arrive, and returned.
    ///
    /// - Parameter isNamed: whether the request's target names the document, so that the caller tells the listener of one that is too large.
    /// - Throws: ``HTTPError`` 415, 413, 400; 503 if there is no memory.
    func carrying(_ place: AttachmentSieve.Place, isNamed: Bool = false) async throws -> (JSONParts, [CarriedBlob]) {
        // The length of a chunked or compressed body is known only at its end.
        let length = request.isGzipped ? nil : request.body.declaredLength
        if let length, length <= CouchLimits.requestBytes { return (try await jsonParts(isNamed ? nil : place), []) }
        try request.checkJSONType()
        var text = GatheredBytes()
        do { return try await carrying(place, length, &text) } catch let error as HTTPError where error.status == 413 {
            if !isNamed { tell(refused: error, place, beginning: text.take()) }
            throw error
        }
    }

    /// - Parameters:
    ///   - length: of the body, if it is known.
    ///   - text: what has come, without attachments.
    private func carrying(_ place: AttachmentSieve.Place, _ length: Int?, _ text: inout GatheredBytes) async throws -> (JSONParts, [CarriedBlob]) {
        var body = request.body
        body.limit = Self.batchLimit
        try body.checkDeclaredLength()
        let inflater = try inflater()
        var pieces = body.pieces(unpacking: inflater, whole: length == nil ? CouchLimits.requestBytes : 0)
        var sieve = AttachmentSieve(place)
        var carried: [CarriedBlob] = []
        var hasAttachments = false
        var upload: BlobUpload?
        var failure: HTTPError?
        while let piece = try await pieces.next() {
            for event in sieve.feed(Array(piece.readableBytesView)) {
                // If the store cannot take an attachment, only its document fails, not the whole batch.
                do {
                    switch event {
                    case .begins:
                        failure = nil
                        if !hasAttachments { try await body.reserveToolMemory((inflater?.memory ?? 0) + CouchLimits.attachmentBytes) }
                        hasAttachments = true
                        upload = try await BlobUpload(self, isGzipped: false)
                    case .bytes(let bytes): try await upload?.append(bytes)
                    case .ends(let isWhole):
                        if isWhole, failure == nil, let blob = try await upload?.finish() { carried.append(.success(blob)) }
                        if isWhole, let failure { carried.append(.failure(failure)) }
                        upload = nil
                    }
                } catch let error as HTTPError where error.status == 413 && place == .batch {
                    upload = nil
                    failure = error
                    if case .ends = event { carried.append(.failure(error)) }
                }
            }
            let isLong = length != nil || pieces.count > CouchLimits.requestBytes
            guard !isLong || text.count + sieve.text.count <= CouchLimits.batchTextBytes else {
                throw HTTPError(
                    413, "the request is longer than couchdb_request_bytes, and has more than \(CouchLimits.batchTextBytes) bytes beside its attachments",
                    headers: ["Connection": "close"])
            }
            try await body.hold(text.count + sieve.text.count)
            text.append(sieve.text)
            sieve.dropText()
        }
        try inflater?.requireEnd()
        body.noteComplete()
        do { return (try JSONParts(checking: text.take()), carried) } catch { throw CouchError.invalidJSON(error) }
    }
}

extension IncomingDocument {
    /// Puts attachments back into the text of a design document, which keeps them inline.
    ///
    /// - Throws: ``HTTPError`` 413.
    mutating func restoreInline(_ carried: [CarriedBlob], _ blobs: BlobStore) async throws {
        var members: [JSONObject.Member] = []
        for member in attachments?.members ?? [] {
            guard var entry = member.value.asObject, let number = entry["data"]?.asUInt64, number < carried.count else {
                members.append(member)
                continue
            }
            let blob = try carried[Int(number)].get()
            guard blob.length <= StoreLimits.maxLocalBodyBytes else {
                throw HTTPError(413, "the attachment \(member.key) is too large for a design document", error: "document_too_large")
            }
            let bytes = try await blobs.perform { try $0.read(blob.digest) }
            entry["data"] = .string(Base64.encode(bytes))
            members.append(JSONObject.Member(key: member.key, value: .object(entry)))
        }
        if attachments != nil { attachments = JSONObject(members) }
    }
}
