import Digests
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Serves blobs to a peer that is allowed to have them.
struct BlobServing {
    let driver: SessionDriver

    /// Sends a blob, or the proof that it is here, to a peer that is allowed to have it:
    /// - a blob of a revision that is in flight to the peer, see ``InFlightBlobs``;
    /// - on a listener, also a blob named by the current revision of the document for which the peer asks, if the peer may see that revision now. So
    ///   a replicator that had to defer a revision gets its blobs later, on another connection.
    ///
    /// Anything else is refused in the same way, whether it is here or not. A remote that we replicate with gets only the first kind: a revision that
    /// it makes us store, naming a blob that we hold, must not give it that blob.
    func serve(_ request: BlobRequest) {
        if driver.blobs.files.inFlight.contains(request.digest) { return give(request) }
        guard driver.isPassive, let document = request.document else { return refuse(request) }
        let digest = request.digest
        driver.service.view(driver.links[request.slot]) { driver, view in
            driver.attempt { try await view.names(digest, in: document) } then: { driver, isNamed in
                if isNamed { driver.serving.give(request) } else { driver.serving.refuse(request) }
            } failed: { $0.serving.refuse(request.handle, digest, $1) }
        } failed: { $0.serving.refuse(request.handle, digest, $1) }
    }

    private func refuse(_ request: BlobRequest) {
        driver.dialect.refuse(request.handle, .forbidden("Attachment's doc not being synced"))
        driver.tell(blobs: .served(request.handle))
    }

    private func give(_ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        if let nonce = request.nonce {
            return driver.proofs.prove(request, nonce: nonce) { $0.serving.refuse(handle, digest, $1) }
        }
        let piece = driver.limits.proofPieceBytes
        driver.blobs.work { blobs -> BlobFiles.Opened in
            // The rest of a blob is not verified against the digest here: the peer verifies the whole, and requests all of it on a mismatch. Reading
            // again what the peer already has would cost the most where connections break most often.
            if request.offset > 0, request.offset <= blobs.size(digest) ?? 0 { return .reader(try blobs.reader(digest)) }
            if let check = try blobs.beginCheck(digest, pieceBytes: piece) { return .check(check) }
            return .reader(try blobs.reader(digest))
        } then: { driver, opened in
            switch opened {
            case .reader(let reader): driver.serving.send(reader, request)
            case .check(let check): driver.serving.readThrough(check, request)
            }
        } failed: { $0.serving.refuse(handle, digest, $1) }
    }

    /// Verifies a blob, piece by piece, before its first byte is sent: if it is damaged, the peer can still be sent an error, which is impossible
    /// once a reply has begun.
    private func readThrough(_ check: BlobCheck, _ request: BlobRequest) {
        let (digest, piece) = (request.digest, driver.limits.proofPieceBytes)
        driver.blobs.work { blobs -> BlobReader? in try blobs.advance(check, bytes: piece) ? blobs.reader(digest) : nil } then: { driver, reader in
            if let reader { driver.serving.send(reader, request) } else { driver.serving.readThrough(check, request) }
        } failed: { $0.serving.refuse(request.handle, digest, $1) }
    }

    private func send(_ reader: BlobReader, _ request: BlobRequest) {
        let (handle, digest) = (request.handle, request.digest)
        // A peer that asks for an offset beyond the end has something else.
        let offset = request.offset <= reader.size ? request.offset : 0
        guard driver.dialect.beginBlob(handle, compresses: request.compresses, offset: offset) else { return driver.tell(blobs: .served(handle)) }
        driver.blobs.files.inFlight.given(digest)
        if offset > 0 { driver.observer.blobResumed(digest, offset) }
        var underWay = BlobUnderWay(.push, request.document, digest.text, size: reader.size)
        underWay.bytes = offset
        driver.blobs.files.served[handle] = BlobFiles.Served(reader: reader, ticket: driver.counters.blobs.begin(underWay), offset: offset)
    }

    private func refuse(_ handle: AnswerHandle, _ digest: BlobDigest, _ error: any Error) {
        if let fault = ReplicationError(ownBlob: error) { driver.blobs.files.inFlight.note(digest, fault) }
        switch error as? StoreError {
        case .blobMissing?: driver.dialect.refuse(handle, .missing("no such blob: \(digest)"))
        // Refused like a missing blob: the document waits at the peer, and nothing else does. Locally, the store has already logged the error, naming
        // the file.
        case let altered? where altered.isAlteredBlob: driver.dialect.refuse(handle, .missing(altered.peerMessage))
        default:
            // A failed filter has told the operator itself. The peer's document must not be given up: it may have the blob once the filter works.
            if !(error is PolicyFailure) { driver.log(error) }
            driver.dialect.refuse(handle, .busy)
        }
        driver.tell(blobs: .served(handle))
    }

    /// Supplies the next piece of a blob that is being sent.
    func supply(_ handle: AnswerHandle) {
        guard let served = driver.blobs.files.served[handle] else { return }
        let (reader, offset) = (served.reader, served.offset)
        let count = driver.limits.blobPieceBytes
        driver.blobs.work { _ in ByteBuffer(bytes: try reader.read(offset: offset, count: count)) } then: { driver, bytes in
            let end = offset + UInt64(bytes.readableBytes)
            let isLast = end >= reader.size
            driver.dialect.supply(handle, bytes, isLast: isLast)
            driver.counters.moved(served.ticket, by: bytes.readableBytes)
            if isLast {
                driver.counters.blobs.end(served.ticket)
                driver.blobs.files.served[handle] = nil
                driver.tell(blobs: .served(handle))
            } else {
                driver.blobs.files.served[handle]?.offset = end
            }
        } failed: { driver, error in
            // A reply cannot be taken back, and the peer would treat a truncated one as final. With this code it asks again, and a blob damaged since
            // it was verified is then refused. The actual error contains the file's path and is not sent to the peer.
            driver.log(error)
            driver.fail(ReplicationError(domain: .websocket, code: Int(CloseCode.comeBack), message: "a blob in transfer can no longer be read; come back later"))
        }
    }
}
