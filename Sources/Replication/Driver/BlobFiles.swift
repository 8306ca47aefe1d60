import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The open files of a connection's blobs, and what the peer may ask for at any time. Confined to its session.
struct BlobFiles {
    /// A blob on its way in. Pieces are written one after the other: the blob workers keep no order among jobs.
    struct Written {
        var writer: BlobWriter
        /// What an earlier connection has left of it.
        var offset: UInt64
        var ticket: BlobProgress.Ticket?
        var waiting: [ByteBuffer] = []
        var isWriting = false
    }

    /// A blob on its way out.
    struct Served {
        let reader: BlobReader
        let ticket: BlobProgress.Ticket
        var offset: UInt64 = 0
    }

    /// What there is of a blob that a peer asks for.
    enum Opened: Sendable {
        case reader(BlobReader)
        /// It has to be read through first.
        case check(BlobCheck)
    }

    var written: [BlobTransfer: Written] = [:]
    var served: [AnswerHandle: Served] = [:]
    /// What the peer was given to prove a blob with.
    var nonces: [BlobTransfer: [UInt8]] = [:]
    var lent = LentBlobs()
    /// What the peer had us prove.
    var proofs: BlobProofs

    init(_ limits: ReplicationLimits) { proofs = BlobProofs(limits) }

    mutating func end() {
        written = [:]
        served = [:]
    }
}

/// Blobs: what the machine asks for is done on the store's blob workers, piece by piece.
extension ReplicationSession {
    func perform(_ action: BlobAction) {
        switch action {
        case .look(let transfer):
            work { $0.contains(transfer.digest) } then: {
                $0.tell(blobs: .looked(transfer, isHere: $1))
            } failed: { $0.fail(transfer, $1) }
        case .askProof(let transfer, let slot, let document):
            let nonce = environment.random.bytes(20)
            files.nonces[transfer] = nonce
            dialect.requestProof(transfer, slot, for: document, nonce: nonce)
        case .checkProof(let transfer, let proof):
            guard let nonce = files.nonces.removeValue(forKey: transfer) else { return }
            let failed: @Sendable (isolated ReplicationSession, any Error) -> Void = { session, error in
                session.log(error)
                session.tell(blobs: .proofChecked(transfer, .unknown))
            }
            work { try ProofInTheMaking(transfer.digest, nonce: nonce, $0) } then: { session, making in
                session.goOn(making) { $0.tell(blobs: .proofChecked(transfer, $1 == proof ? .right : .wrong)) } failed: { failed($0, $1) }
            } failed: { failed($0, $1) }
        case .begin(let transfer, let resumes):
            files.nonces[transfer] = nil
            let (owner, length) = (resumes ? role.blobOwner : nil, blobs.size(of: transfer))
            work { blobs -> (BlobWriter, UInt64) in
                if let owner, let writer = try blobs.resumedWriter(transfer.digest, of: owner, length: length) { return (writer, writer.size) }
                return (try blobs.writer(length: length), 0)
            } then: { session, opened in
                session.files.written[transfer] = BlobFiles.Written(writer: opened.0, offset: opened.1)
                session.tell(blobs: .writerOpened(transfer, offset: opened.1))
            } failed: { $0.fail(transfer, $1) }
        case .request(let transfer, let slot, let document, let compresses, let offset):
            var underWay = BlobUnderWay(.pull, document, transfer.digest.text, size: blobs.size(of: transfer))
            underWay.bytes = offset
            files.written[transfer]?.ticket = counters.blobs.begin(underWay)
            dialect.requestBlob(transfer, slot, for: document, compresses: compresses, offset: offset)
        case .resumed(let transfer, let offset): observer.blobResumed(transfer.digest, offset)
        case .startOver(let transfer): startOver(transfer)
        case .write(let transfer, let bytes):
            files.written[transfer]?.waiting.append(bytes)
            counters.moved(files.written[transfer]?.ticket, by: bytes.readableBytes)
            writeNext(transfer)
        case .consumed(let transfer, let bytes): dialect.consumed(transfer, bytes: bytes)
        case .install(let transfer):
            dialect.forget(transfer)
            guard let written = endWriting(transfer) else { return }
            work { _ in try written.writer.finish(expecting: transfer.digest) } then: { session, _ in
                session.tell(blobs: .installed(transfer))
            } failed: { session, error in
                // Perhaps it is the beginning that was wrong, for which this peer's document must not be given up.
                if written.offset > 0, case StoreError.blobDigestMismatch? = error as? StoreError { return session.tell(blobs: .joinedWrongly(transfer)) }
                session.fail(transfer, error)
            }
        case .abandon(let transfer):
            dialect.abandon(transfer)
            _ = endWriting(transfer)
            files.nonces[transfer] = nil
        case .tell(let waiter, let error): tell(links[waiter.slot], pull: .insertion(.blobsFetched(waiter.fetch, error)))
        case .serve(let request): serve(request)
        }
    }

    private func endWriting(_ transfer: BlobTransfer) -> BlobFiles.Written? {
        let written = files.written.removeValue(forKey: transfer)
        if let ticket = written?.ticket { counters.blobs.end(ticket) }
        return written
    }

    private func writeNext(_ transfer: BlobTransfer) {
        guard let blob = files.written[transfer], !blob.isWriting, !blob.waiting.isEmpty else { return }
        let writer = blob.writer
        let pieces = blob.waiting
        files.written[transfer]?.waiting = []
        files.written[transfer]?.isWriting = true
        work { _ in
            for piece in pieces { try piece.withUnsafeReadableBytes { try writer.append($0) } }
        } then: { session, _ in
            guard session.files.written[transfer] != nil else { return }
            session.files.written[transfer]?.isWriting = false
            session.tell(blobs: .written(transfer, bytes: pieces.reduce(0) { $0 + $1.readableBytes }))
            session.writeNext(transfer)
        } failed: { if $0.files.written[transfer] != nil { $0.fail(transfer, $1) } }
    }

    /// What comes goes into another file; what came before the blob's first byte is none of it.
    private func startOver(_ transfer: BlobTransfer) {
        // Nothing is written meanwhile.
        files.written[transfer]?.isWriting = true
        if let ticket = files.written[transfer]?.ticket { counters.blobs.rewind(ticket) }
        let (before, length) = (files.written[transfer]?.writer, blobs.size(of: transfer))
        work { blobs in
            // Its room is needed.
            before?.cancel()
            return try blobs.writer(length: length)
        } then: { session, writer in
            guard session.files.written[transfer] != nil else { return }
            session.files.written[transfer]?.writer = writer
            session.files.written[transfer]?.offset = 0
            session.files.written[transfer]?.isWriting = false
            session.writeNext(transfer)
        } failed: { if $0.files.written[transfer] != nil { $0.fail(transfer, $1) } }
    }

    /// The connection is over: what has come of blobs waits for the next one.
    func endBlobs() {
        if let owner = role.blobOwner {
            for (transfer, written) in files.written.sorted(by: { $0.key.number < $1.key.number }) {
                // Not with what waits to be written: that is given up.
                let writer = written.writer
                database.blobs.perform({ $0.keepUnfinished(writer, transfer.digest, of: owner) }, completion: { _ in })
            }
        }
        files.end()
    }

    private func fail(_ transfer: BlobTransfer, _ error: any Error) {
        let failure: ReplicationError
        switch error as? StoreError {
        case .blobDigestMismatch?, .blobLengthMismatch?: failure = ReplicationError(domain: .http, code: 400, message: "\(error)")
        case .blobTooLarge?: failure = ReplicationError(domain: .http, code: 413, message: "\(error)")
        case .diskFull?: failure = ReplicationError(store: error)
        default:
            // The disk, or the number of open files: that passes, and must not cost the peer its edit.
            var passing = ReplicationError(store: error)
            (passing.code, passing.isTransient) = (503, true)
            failure = passing
        }
        tell(blobs: .failed(transfer, failure))
    }

    // MARK: - Needing

    /// The blobs of a revision that came. Those that the peer may have anyway it need not show: what it showed before, and what the
    /// document's current revision names, if the peer may have that.
    func need(_ fetch: FetchID, _ revision: CheckedRevision, _ link: CollectionLink) {
        let (waiter, id, blobs) = (BlobWaiter(slot: link.slot, fetch: fetch), revision.id, revision.blobs)
        let limit = limits.knownBlobBytes
        if revision.hasShownBlobs { return tell(blobs: .needed(waiter, id, blobs, known: Set(blobs.map(\.digest)))) }
        if let source = isPassive ? nil : link.source {
            return read { try source.knownBlobs($0, id, limit: limit) } then: { $0.tell(blobs: .needed(waiter, id, blobs, known: $1)) }
        }
        view(link) { session, view in
            session.ask { () async -> Result<Set<BlobDigest>, any Error> in
                do { return .success(try await view.blobs(of: id, limit: limit)) } catch { return .failure(error) }
            } then: { session, result in
                switch result {
                case .success(let known): session.tell(blobs: .needed(waiter, id, blobs, known: known))
                // What the document had cannot be read, and what comes may repair it: the peer shows all of it.
                case .failure(let error as StoreError) where error.concernsOneDocument:
                    session.tell(blobs: .needed(waiter, id, blobs, known: []))
                case .failure(let error): session.fail(error)
                }
            }
        } failed: { $0.fail($1) }
    }

    // MARK: - Serving

    /// Gives a blob, or the proof that it is here, to a peer that may have it:
    /// - one of a revision that is on its way to the peer, see ``LentBlobs``;
    /// - on a listener, also one that the current revision of the document names for which the peer asks, if that may go to it now. So a
    ///   replicator that had to put a revision aside gets its blobs later, on another connection.
    ///
    /// Anything else is refused alike, whether it is here or not. A remote that we replicate with gets the first only: what it makes us
    /// store, by a name for a blob that we hold, must not bring it that blob.
    private func serve(_ request: BlobRequest) {
        if files.lent.contains(request.digest) { return give(request) }
        guard isPassive, let document = request.document else { return refuse(request) }
        let digest = request.digest
        view(links[request.slot]) { session, view in
            session.ask { () async -> Result<Bool, any Error> in
                do { return .success(try await view.blobs(of: document).contains(digest)) } catch { return .failure(error) }
            } then: { session, result in
                switch result {
                case .success(true): session.give(request)
                case .success(false): session.refuse(request)
                case .failure(let error): session.refuse(request.handle, digest, error)
                }
            }
        } failed: { $0.refuse(request.handle, digest, $1) }
    }

    private func refuse(_ request: BlobRequest) {
        dialect.refuse(request.handle, MessageError(code: 403, message: "Attachment's doc not being synced"))
        tell(blobs: .served(request.handle))
    }

    private func give(_ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        if let nonce = request.nonce {
            return prove(request, nonce: nonce) { $0.refuse(handle, digest, $1) }
        }
        let piece = limits.proofPieceBytes
        work { blobs -> BlobFiles.Opened in
            // The rest is not compared with the digest here: the peer does that with all of it, and asks for the whole where it is another. To
            // read through what it has already would cost the most where connections break most often.
            if request.offset > 0, request.offset <= blobs.size(digest) ?? 0 { return .reader(try blobs.reader(digest)) }
            if let check = try blobs.beginCheck(digest, pieceBytes: piece) { return .check(check) }
            return .reader(try blobs.reader(digest))
        } then: { session, opened in
            switch opened {
            case .reader(let reader): session.send(reader, request)
            case .check(let check): session.goOn(check, request)
            }
        } failed: { $0.refuse(handle, digest, $1) }
    }

    /// Reads a blob through before its first byte goes out, piece by piece: where it is damaged the peer is told so, which a reply that has begun
    /// cannot do.
    private func goOn(_ check: BlobCheck, _ request: BlobRequest) {
        let (digest, piece) = (request.digest, limits.proofPieceBytes)
        work { blobs -> BlobReader? in try blobs.advance(check, bytes: piece) ? blobs.reader(digest) : nil } then: { session, reader in
            if let reader { session.send(reader, request) } else { session.goOn(check, request) }
        } failed: { $0.refuse(request.handle, digest, $1) }
    }

    private func send(_ reader: BlobReader, _ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        // Who asks for more than there is has something else.
        let offset = request.offset <= reader.size ? request.offset : 0
        guard dialect.beginBlob(handle, compresses: request.compresses, offset: offset) else { return tell(blobs: .served(handle)) }
        if offset > 0 { observer.blobResumed(digest, offset) }
        var underWay = BlobUnderWay(.push, request.document, digest.text, size: reader.size)
        underWay.bytes = offset
        files.served[handle] = BlobFiles.Served(reader: reader, ticket: counters.blobs.begin(underWay), offset: offset)
    }

    private func refuse(_ handle: AnswerHandle, _ digest: BlobDigest, _ error: any Error) {
        switch error as? StoreError {
        case .blobMissing?: dialect.refuse(handle, MessageError(code: 404, message: "no such blob: \(digest)"))
        // As of one that is not here: the document waits at the peer, and nothing else does. Here the store has said it, with the file.
        case let altered? where altered.isOfAlteredBlob: dialect.refuse(handle, MessageError(code: 404, message: altered.peerMessage))
        default:
            log(error)
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
            session.counters.moved(served.ticket, by: bytes.readableBytes)
            if isLast {
                session.counters.blobs.end(served.ticket)
                session.files.served[handle] = nil
                session.tell(blobs: .served(handle))
            } else {
                session.files.served[handle]?.offset = end
            }
        } failed: { session, error in
            // A reply cannot be taken back; a short one would be final to the peer. It comes again after this, and a blob that was damaged since
            // it was read through is refused then. What is wrong, with the file's path, is not for the peer.
            session.log(error)
            session.fail(ReplicationError(domain: .websocket, code: 4001, message: "a blob that was on its way cannot be read any more; come back later"))
        }
    }

    func work<T: Sendable>(
        _ body: @escaping @Sendable (BlobStore) throws -> T, then: @escaping @Sendable (isolated ReplicationSession, T) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void
    ) {
        database.blobs.perform(body) { result in self.goOn(result, then, failed) }
    }
}
