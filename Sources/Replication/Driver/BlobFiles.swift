import Digests
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The open files of a connection's blobs, and what a peer that is bound to channels may ask for: the blobs of revisions that are
/// on their way to it, as with Sync Gateway. Confined to its session.
struct BlobFiles {
    /// A blob on its way in. Pieces are written one after the other: the blob workers keep no order among jobs.
    struct Written {
        let writer: BlobWriter
        var waiting: [ByteBuffer] = []
        var isWriting = false
    }

    /// A blob on its way out.
    struct Served {
        let reader: BlobReader
        var offset: UInt64 = 0
    }

    var written: [BlobDigest: Written] = [:]
    var served: [AnswerHandle: Served] = [:]
    private var lent: [BlobDigest: Int] = [:]
    private var lentByDocument: [DocumentID: [BlobDigest]] = [:]

    /// Nothing is lent.
    var isEmpty: Bool { lentByDocument.isEmpty }

    mutating func lend(_ document: OutgoingDocument) {
        takeBack(document.id)
        let digests = Set((try? BlobReferences.find(in: document.body))?.map(\.digest) ?? [])
        guard !digests.isEmpty else { return }
        lentByDocument[document.id] = Array(digests)
        for digest in digests { lent[digest, default: 0] += 1 }
    }

    mutating func takeBack(_ id: DocumentID) {
        for digest in lentByDocument.removeValue(forKey: id) ?? [] {
            guard let count = lent[digest] else { continue }
            lent[digest] = count > 1 ? count - 1 : nil
        }
    }

    func isLent(_ digest: BlobDigest) -> Bool { lent[digest] != nil }

    mutating func end() {
        written = [:]
        served = [:]
    }
}

/// Blobs: what the machine asks for is done on the store's blob workers, piece by piece.
extension ReplicationSession {
    func perform(_ action: BlobAction) {
        switch action {
        case .look(let digest):
            work { $0.contains(digest) } then: { $0.tell(blobs: .looked(digest, isHere: $1)) } failed: { $0.fail(digest, $1) }
        case .begin(let digest):
            work { try $0.writer() } then: { session, writer in
                session.files.written[digest] = BlobFiles.Written(writer: writer)
                session.tell(blobs: .writerOpened(digest))
            } failed: { $0.fail(digest, $1) }
        case .request(let digest, let slot, let document, let compresses):
            dialect.requestBlob(digest, slot, for: document, compresses: compresses)
        case .write(let digest, let bytes):
            files.written[digest]?.waiting.append(bytes)
            writeNext(digest)
        case .consumed(let digest, let bytes): dialect.consumed(digest, bytes: bytes)
        case .install(let digest):
            dialect.forget(digest)
            guard let writer = files.written.removeValue(forKey: digest)?.writer else { return }
            work { _ in try writer.finish(expecting: digest) } then: { session, _ in
                session.tell(blobs: .installed(digest))
            } failed: { $0.fail(digest, $1) }
        case .abandon(let digest):
            dialect.abandon(digest)
            files.written[digest] = nil
        case .tell(let waiter, let error): tell(links[waiter.slot], pull: .insertion(.blobsFetched(waiter.fetch, error)))
        case .serve(let request): serve(request)
        }
    }

    private func writeNext(_ digest: BlobDigest) {
        guard let blob = files.written[digest], !blob.isWriting, !blob.waiting.isEmpty else { return }
        let writer = blob.writer
        let pieces = blob.waiting
        files.written[digest]?.waiting = []
        files.written[digest]?.isWriting = true
        work { _ in
            for piece in pieces { try piece.withUnsafeReadableBytes { try writer.append($0) } }
        } then: { session, _ in
            // Given up meanwhile; another attempt at the same blob has a file of its own.
            guard session.files.written[digest]?.writer === writer else { return }
            session.files.written[digest]?.isWriting = false
            session.tell(blobs: .written(digest, bytes: pieces.reduce(0) { $0 + $1.readableBytes }))
            session.writeNext(digest)
        } failed: { if $0.files.written[digest]?.writer === writer { $0.fail(digest, $1) } }
    }

    private func fail(_ digest: BlobDigest, _ error: any Error) {
        let failure: ReplicationError
        switch error as? StoreError {
        case .blobDigestMismatch?, .blobLengthMismatch?: failure = ReplicationError(domain: .http, code: 400, message: "\(error)")
        case .blobTooLarge?: failure = ReplicationError(domain: .http, code: 413, message: "\(error)")
        // The disk, or the number of open files: that passes, and must not cost the peer its edit.
        default: failure = ReplicationError(domain: .http, code: 503, message: "\(error)")
        }
        tell(blobs: .failed(digest, failure))
    }

    // MARK: - Serving

    private func serve(_ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        guard channelPeer == nil || files.isLent(digest) else {
            dialect.refuse(handle, MessageError(code: 403, message: "Attachment's doc not being synced"))
            return tell(blobs: .served(handle))
        }
        if let nonce = request.nonce {
            work { try $0.proof(of: digest, nonce: nonce) } then: { session, proof in
                session.dialect.answer(handle, proof: proof)
                session.tell(blobs: .served(handle))
            } failed: { $0.refuse(handle, digest, $1) }
            return
        }
        work { try $0.reader(digest) } then: { session, reader in
            guard session.dialect.beginBlob(handle, compresses: request.compresses) else { return session.tell(blobs: .served(handle)) }
            session.files.served[handle] = BlobFiles.Served(reader: reader)
        } failed: { $0.refuse(handle, digest, $1) }
    }

    private func refuse(_ handle: AnswerHandle, _ digest: BlobDigest, _ error: any Error) {
        if case StoreError.blobMissing? = error as? StoreError {
            dialect.refuse(handle, MessageError(code: 404, message: "no such blob: \(digest)"))
        } else {
            logger.error("\(error)")
            dialect.refuse(handle, .busy)
        }
        tell(blobs: .served(handle))
    }

    /// The next piece of a blob that is being sent.
    func supply(_ handle: AnswerHandle) {
        guard let served = files.served[handle] else { return }
        let (reader, offset) = (served.reader, served.offset)
        let count = limits.blobPieceBytes
        work { _ in ByteBuffer(bytes: try reader.read(offset: offset, count: count)) } then: { session, bytes in
            let end = offset + UInt64(bytes.readableBytes)
            let isLast = end >= reader.size
            session.dialect.supply(handle, bytes, isLast: isLast)
            if isLast {
                session.files.served[handle] = nil
                session.tell(blobs: .served(handle))
            } else {
                session.files.served[handle]?.offset = end
            }
        } failed: { session, error in
            // A reply cannot be taken back; a short one would be final to the peer. It comes again after this.
            session.fail(ReplicationError(domain: .websocket, code: 4001, message: "\(error)"))
        }
    }

    private func work<T: Sendable>(
        _ body: @escaping @Sendable (BlobStore) throws -> T, then: @escaping @Sendable (isolated ReplicationSession, T) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void
    ) {
        database.blobs.perform(body) { result in self.goOn(result, then, failed) }
    }
}

extension BlobStore {
    /// The proof that a blob is here: the digest of the nonce's length, the nonce and the blob.
    fileprivate func proof(of digest: BlobDigest, nonce: [UInt8]) throws(StoreError) -> BlobDigest {
        let reader = try reader(digest)
        let hasher = SHA1Hasher()
        hasher.update([UInt8(nonce.count)] + nonce)
        var offset: UInt64 = 0
        while offset < reader.size {
            let bytes = try reader.read(offset: offset, count: 256 << 10)
            hasher.update(bytes)
            offset += UInt64(bytes.count)
        }
        guard let proof = BlobDigest(bytes: hasher.finalize()) else { throw .blobMissing(digest: digest.text) }
        return proof
    }
}
