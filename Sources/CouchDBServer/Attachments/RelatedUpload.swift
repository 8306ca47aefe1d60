import Digests
import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore

/// A document and its attachments in one `multipart/related` body: the document first, then the attachments in the order in which it names them, or
/// under their file names.
struct RelatedUpload {
    private let call: CouchCall
    private var reader: MultipartReader

    init(_ call: CouchCall, _ boundary: [UInt8]) {
        self.call = call
        var body = call.request.body
        // Each part may be compressed separately; the store limits the size of each.
        body.limit = .unlimited
        reader = MultipartReader(body, boundary: boundary)
    }

    mutating func receive() async throws -> (IncomingDocument, [String: ReceivedBlob]) {
        guard try await reader.nextPart() != nil else { throw CouchError.badRequest("the multipart body has no document") }
        var json = GatheredBytes()
        let limit = NamedLimit("couchdb_request_bytes", StoreLimits.maxBodyBytes * 2)
        while let piece = try await reader.piece() {
            guard json.count + piece.count <= limit.value else {
                throw HTTPError(413, "the document has more than max_document_bytes (\(StoreLimits.maxBodyBytes)) allows", headers: ["Connection": "close"])
            }
            try await call.request.body.hold(json.count + piece.count)
            json.append(piece)
        }
        let parts: JSONParts
        do { parts = try JSONParts(checking: json.take()) } catch { throw CouchError.invalidJSON(error) }
        let document = try IncomingDocument(parts, parts.root)
        var waiting = (document.attachments?.members ?? []).filter { $0.value["follows"]?.asBool == true }
        // It is unpredictable what later readers would make of such a number.
        if let odd = waiting.first(where: { $0.value["length"].map { $0.asUInt64 == nil } ?? false }) {
            throw CouchError.badRequest("the length of the attachment \(odd.key) is \(odd.value["length"]?.text.prefix(40) ?? ""), not a number of bytes")
        }
        var received: [String: ReceivedBlob] = [:]
        while let header = try await reader.nextPart() {
            let named = header.first("Content-Disposition").flatMap(Self.fileName)
            let index = named.flatMap { name in waiting.firstIndex { $0.key.utf8.elementsEqual(name.utf8) } } ?? (waiting.isEmpty ? nil : 0)
            guard let index else { throw CouchError.badRequest("a part follows that the document does not name") }
            let entry = waiting.remove(at: index)
            let isGzipped = entry.value["encoding"]?.asString == "gzip" || header.first("Content-Encoding") == "gzip"
            var upload = try await BlobUpload(
                call, isGzipped: isGzipped, length: entry.value["length"]?.asUInt64.map { Int(clamping: $0) })
            let asSent = MD5Hasher()
            let claimed = isGzipped ? nil : entry.value["length"]?.asUInt64
            while let piece = try await reader.piece() {
                asSent.update(piece)
                // The rest is not worth reading.
                if let claimed, upload.length + UInt64(piece.count) > claimed { throw Self.wrongLength(entry.key, "\(upload.length + UInt64(piece.count)) bytes or more", claimed) }
                try await upload.append(piece)
            }
            var blob = try await upload.finish()
            // CouchDB computes the digest over the bytes as sent, compressed or not.
            if let digest = entry.value["digest"]?.asString, digest.utf8.starts(with: "md5-".utf8),
                ![asSent.finalize(), blob.md5].contains(where: { digest == "md5-\(Base64.encode($0))" })
            {
                throw HTTPError(400, "Possible message corruption.", error: "content_md5_mismatch")
            }
            blob.contentType = header.first("Content-Type")
            if let claimed, claimed != blob.length { throw Self.wrongLength(entry.key, "\(blob.length) bytes", claimed) }
            received[entry.key] = blob
        }
        call.request.body.noteComplete()
        if let missing = waiting.first { throw CouchError.badRequest("the attachment \(missing.key) follows, but did not come") }
        return (document, received)
    }

    private static func wrongLength(_ name: String, _ found: String, _ claimed: UInt64) -> HTTPError {
        var error = CouchError.badRequest("the attachment \(name) has \(found), not \(claimed)")
        error.headers.set("Connection", "close")
        return error
    }

    private static func fileName(_ field: String) -> String? {
        let parts = Substring(field).utf8.split(separator: UInt8(ascii: ";"), maxSplits: 1)
        guard parts.count == 2 else { return nil }
        let rest = String(Substring(HeaderList.trim(parts[1])))
        guard rest.utf8.starts(with: "filename=\"".utf8) else { return nil }
        var name = ""
        var isEscaped = false
        for scalar in rest.unicodeScalars.dropFirst(10) {
            if isEscaped {
                isEscaped = false
            } else if scalar == "\\" {
                isEscaped = true
                continue
            } else if scalar == "\"" {
                return name
            }
            name.unicodeScalars.append(scalar)
        }
        return nil
    }
}

/// Streams an attachment into the blob store, decompressed if necessary: the store identifies blobs by their uncompressed contents.
struct BlobUpload {
    private let blobs: BlobStore
    private let arrived: ArrivedBlobs
    private let writer: BlobWriter
    private let md5 = MD5Hasher()
    /// How many bytes were stored so far.
    private(set) var length: UInt64 = 0
    private let inflater: Inflater?

    /// - Parameter length: the number of bytes, if known: data that cannot fit is not read.
    init(_ call: CouchCall, isGzipped: Bool, length: Int? = nil) async throws {
        let blobs = call.database.blobs
        (self.blobs, arrived) = (blobs, call.arrived)
        do { writer = try await blobs.perform { try $0.writer(length: length.map { UInt64(max(0, $0)) }) } } catch let error as StoreError {
            throw Self.named(error)
        }
        inflater = isGzipped ? Inflater() : nil
    }

    mutating func append(_ bytes: [UInt8]) async throws {
        guard let inflater else { return try await store(bytes) }
        inflater.feed(bytes)
        while let piece = try inflater.next() { try await store(piece) }
    }

    private mutating func store(_ bytes: [UInt8]) async throws {
        md5.update(bytes)
        length += UInt64(bytes.count)
        let writer = writer
        do { try await blobs.perform { _ in try writer.append(bytes) } } catch let error as StoreError { throw Self.named(error) }
    }

    mutating func finish() async throws -> ReceivedBlob {
        if let inflater, !inflater.isComplete || inflater.hasMore { throw CouchError.badRequest("the gzip-encoded attachment is cut short, or more follows it") }
        let writer = writer
        let arrived = arrived
        let digest: BlobDigest
        do { digest = try await blobs.perform { _ in try writer.finish(arrived: arrived) } } catch let error as StoreError { throw Self.named(error) }
        return ReceivedBlob(digest: digest, md5: md5.finalize(), length: length)
    }

    /// The rest of the body is not worth reading.
    private static func named(_ error: StoreError) -> HTTPError {
        var error = CouchError.from(error)
        error.headers.set("Connection", "close")
        return error
    }
}
