import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Blobs of a database for operators: stored and read in pieces.
package struct BlobAccess: Sendable {
    /// Bytes per piece when a blob is read.
    static let pieceBytes = 128 << 10

    private let database: Database

    package init(_ database: Database) { self.database = database }

    /// `max_blob_bytes`.
    var maxBytes: Int { Int(clamping: database.blobs.maxBytes) }

    /// Stores bytes until `next` returns nil. A blob that no document refers to within `blobGraceSeconds` is collected.
    ///
    /// - Parameters:
    ///   - length: the total, if known: a blob that cannot fit is not read at all.
    ///   - expected: the digest that the bytes must have; otherwise nothing is stored.
    /// - Throws: ``AgentError``, `tooLarge` above `max_blob_bytes`.
    package func put(length: Int? = nil, expecting expected: String? = nil, _ next: () async throws -> ByteBuffer?) async throws -> JSONValue {
        let expected = try expected.map { text throws(AgentError) in try Self.digest(text) }
        return try await naming {
            let writer = try await database.blobs.perform { try $0.writer(.local, length: length.map { UInt64(max(0, $0)) }) }
            var count: UInt64 = 0
            while let piece = try await next() {
                count += UInt64(piece.readableBytes)
                let bytes = Array(piece.readableBytesView)
                try await database.blobs.perform { _ in try writer.append(bytes) }
            }
            let digest = try await database.blobs.perform { _ in try writer.finish(expecting: expected) }
            return JSONOutput.object(["ok": .bool(true), "digest": .string(digest.text), "length": JSONOutput.number(count)])
        }
    }

    /// `digest`, `length` and `referenced` of a blob.
    /// - Throws: ``AgentError``, `invalid` if the text is not a digest, `notFound` if there is no such blob.
    package func facts(_ digest: String) async throws -> JSONValue {
        let digest = try Self.digest(digest)
        return try await naming {
            guard let size = try await database.blobs.perform({ $0.size(digest) }) else {
                throw AgentError(.notFound, "there is no blob \(digest) in database \(database.name)")
            }
            let isReferenced = try await database.read { try $0.isBlobReferenced(digest) }
            return JSONOutput.object(["digest": .string(digest.text), "length": JSONOutput.number(size), "referenced": .bool(isReferenced)])
        }
    }

    /// A blob that is open for reading.
    package struct Opened: Sendable {
        package let size: UInt64
        fileprivate let reader: BlobReader
        fileprivate let blobs: BlobStore

        /// Passes on all pieces.
        /// - Throws: ``AgentError`` at the last one, if the file was altered meanwhile.
        package func each(_ body: (ByteBuffer) async throws -> Void) async throws {
            var offset: UInt64 = 0
            repeat {
                let at = offset
                let piece: [UInt8]
                do {
                    piece = try await blobs.perform { [reader] _ in try reader.read(offset: at, count: BlobAccess.pieceBytes) }
                } catch let error as StoreError { throw AgentError(error.kind, "\(error)") }
                guard !piece.isEmpty else { break }
                offset += UInt64(piece.count)
                try await body(ByteBuffer(bytes: piece))
            } while offset < size
        }
    }

    /// Opens a blob after reading it through once: if a blob were found to be altered after the answer had begun, the answer could only be cut
    /// short.
    /// - Throws: ``AgentError``, `invalid` if the text is not a digest, `notFound` if there is no such blob, `failed` if it is altered.
    package func open(_ digest: String) async throws -> Opened {
        let digest = try Self.digest(digest)
        return try await naming {
            try await database.blobs.check(digest, pieceBytes: Self.pieceBytes)
            let reader = try await database.blobs.perform { try $0.reader(digest) }
            return Opened(size: reader.size, reader: reader, blobs: database.blobs)
        }
    }

    private static func digest(_ text: String) throws(AgentError) -> BlobDigest {
        do { return try BlobDigest(text) } catch { throw AgentError(.invalid, "\(error)") }
    }

    /// All blobs: objects with `digest`, `length` and `referenced`, which says whether a stored document refers to it.
    package func each(_ body: ([JSONValue]) async throws -> Void) async throws {
        let digests = try await naming { try await database.blobs.perform { try $0.digests() } }
        for start in stride(from: 0, to: digests.count, by: 500) {
            let page = digests[start..<min(start + 500, digests.count)]
            let sizes = try await database.blobs.perform { blobs in page.map { blobs.size($0) } }
            let referenced = try await database.read { transaction in try page.map { try transaction.isBlobReferenced($0) } }
            let rows = zip(page, zip(sizes, referenced)).compactMap { digest, facts in
                // It may have been collected meanwhile.
                facts.0.map { size in
                    JSONOutput.object([
                        "digest": .string(digest.text), "length": JSONOutput.number(size), "referenced": .bool(facts.1),
                    ])
                }
            }
            if !rows.isEmpty { try await body(rows) }
        }
    }

    private func naming<T>(_ work: () async throws -> T) async throws -> T {
        do { return try await work() } catch let error as StoreError { throw AgentError(error.kind, "\(error)") }
    }
}
