import Digests
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Gives blobs to a peer that may have them.
struct BlobServing {
    let session: SessionDriver

    /// Gives a blob, or the proof that it is here, to a peer that may have it:
    /// - one of a revision that is on its way to the peer, see ``LentBlobs``;
    /// - on a listener, also one that the current revision of the document names for which the peer asks, if that may go to it now. So a
    ///   replicator that had to put a revision aside gets its blobs later, on another connection.
    ///
    /// Anything else is refused alike, whether it is here or not. A remote that we replicate with gets the first only: what it makes us
    /// store, by a name for a blob that we hold, must not bring it that blob.
    func serve(_ request: BlobRequest) {
        if session.blobs.files.lent.contains(request.digest) { return give(request) }
        guard session.isPassive, let document = request.document else { return refuse(request) }
        let digest = request.digest
        session.service.view(session.links[request.slot]) { session, view in
            session.ask { () async -> Result<Bool, any Error> in
                do { return .success(try await view.blobs(of: document).contains(digest)) } catch { return .failure(error) }
            } then: { session, result in
                switch result {
                case .success(true): session.serving.give(request)
                case .success(false): session.serving.refuse(request)
                case .failure(let error): session.serving.refuse(request.handle, digest, error)
                }
            }
        } failed: { $0.serving.refuse(request.handle, digest, $1) }
    }

    private func refuse(_ request: BlobRequest) {
        session.dialect.refuse(request.handle, MessageError(code: 403, message: "Attachment's doc not being synced"))
        session.tell(blobs: .served(request.handle))
    }

    private func give(_ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        if let nonce = request.nonce {
            return session.proofs.prove(request, nonce: nonce) { $0.serving.refuse(handle, digest, $1) }
        }
        let piece = session.limits.proofPieceBytes
        session.blobs.work { blobs -> BlobFiles.Opened in
            // The rest is not compared with the digest here: the peer does that with all of it, and asks for the whole where it is another. To
            // read through what it has already would cost the most where connections break most often.
            if request.offset > 0, request.offset <= blobs.size(digest) ?? 0 { return .reader(try blobs.reader(digest)) }
            if let check = try blobs.beginCheck(digest, pieceBytes: piece) { return .check(check) }
            return .reader(try blobs.reader(digest))
        } then: { session, opened in
            switch opened {
            case .reader(let reader): session.serving.send(reader, request)
            case .check(let check): session.serving.readThrough(check, request)
            }
        } failed: { $0.serving.refuse(handle, digest, $1) }
    }

    /// Reads a blob through before its first byte goes out, piece by piece: where it is damaged the peer is told so, which a reply that has begun
    /// cannot do.
    private func readThrough(_ check: BlobCheck, _ request: BlobRequest) {
        let (digest, piece) = (request.digest, session.limits.proofPieceBytes)
        session.blobs.work { blobs -> BlobReader? in try blobs.advance(check, bytes: piece) ? blobs.reader(digest) : nil } then: { session, reader in
            if let reader { session.serving.send(reader, request) } else { session.serving.readThrough(check, request) }
        } failed: { $0.serving.refuse(request.handle, digest, $1) }
    }

    private func send(_ reader: BlobReader, _ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        // Who asks for more than there is has something else.
        let offset = request.offset <= reader.size ? request.offset : 0
        guard session.dialect.beginBlob(handle, compresses: request.compresses, offset: offset) else { return session.tell(blobs: .served(handle)) }
        session.blobs.files.lent.given(digest)
        if offset > 0 { session.observer.blobResumed(digest, offset) }
        var underWay = BlobUnderWay(.push, request.document, digest.text, size: reader.size)
        underWay.bytes = offset
        session.blobs.files.served[handle] = BlobFiles.Served(reader: reader, ticket: session.counters.blobs.begin(underWay), offset: offset)
    }

    private func refuse(_ handle: AnswerHandle, _ digest: BlobDigest, _ error: any Error) {
        if let fault = ReplicationError(ownBlob: error) { session.blobs.files.lent.note(digest, fault) }
        switch error as? StoreError {
        case .blobMissing?: session.dialect.refuse(handle, MessageError(code: 404, message: "no such blob: \(digest)"))
        // As of one that is not here: the document waits at the peer, and nothing else does. Here the store has said it, with the file.
        case let altered? where altered.isOfAlteredBlob: session.dialect.refuse(handle, MessageError(code: 404, message: altered.peerMessage))
        default:
            session.log(error)
            session.dialect.refuse(handle, .busy)
        }
        session.tell(blobs: .served(handle))
    }

    /// The next piece of a blob that is being sent.
    func supply(_ handle: AnswerHandle) {
        guard let served = session.blobs.files.served[handle] else { return }
        let (reader, offset) = (served.reader, served.offset)
        let count = session.limits.blobPieceBytes
        session.blobs.work { _ in ByteBuffer(bytes: try reader.read(offset: offset, count: count)) } then: { session, bytes in
            let end = offset + UInt64(bytes.readableBytes)
            let isLast = end >= reader.size
            session.dialect.supply(handle, bytes, isLast: isLast)
            session.counters.moved(served.ticket, by: bytes.readableBytes)
            if isLast {
                session.counters.blobs.end(served.ticket)
                session.blobs.files.served[handle] = nil
                session.tell(blobs: .served(handle))
            } else {
                session.blobs.files.served[handle]?.offset = end
            }
        } failed: { session, error in
            // A reply cannot be taken back; a short one would be final to the peer. It comes again after this, and a blob that was damaged since
            // it was read through is refused then. What is wrong, with the file's path, is not for the peer.
            session.log(error)
            session.fail(ReplicationError(domain: .websocket, code: 4001, message: "a blob that was on its way cannot be read any more; come back later"))
        }
    }
}
