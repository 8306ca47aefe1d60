import Documents
import DocumentStore
import Interfaces
import NIOCore

/// Carries out the blob machine's actions on the store's blob workers, piece by piece.
final class BlobDriver {
    private unowned let driver: SessionDriver
    var machine: BlobMachine
    var files: BlobFiles
    private var received = ReceivedBlobs()
    /// Memory held by the blob names of revisions on their way, in bytes.
    var namedBytes: Int { received.bytes }

    init(_ driver: SessionDriver) {
        self.driver = driver
        (machine, files) = (BlobMachine(driver.limits, asksProofs: !driver.role.hidesDocuments), BlobFiles(driver.limits))
    }

    func perform(_ action: BlobAction) {
        switch action {
        case .look(let transfer): look(transfer)
        case .askProof(let transfer, let slot, let document): askProof(transfer, slot, for: document)
        case .checkProof(let transfer, let proof): checkProof(transfer, proof)
        case .begin(let transfer, let resumes): begin(transfer, resumes: resumes)
        case .request(let transfer, let slot, let document, let compresses, let offset):
            request(transfer, slot, for: document, compresses: compresses, offset: offset)
        case .resumed(let transfer, let offset): driver.observer.blobResumed(transfer.digest, offset)
        case .startOver(let transfer): startOver(transfer)
        case .write(let transfer, let bytes): write(transfer, bytes)
        case .consumed(let transfer, let bytes): driver.dialect.consumed(transfer, bytes: bytes)
        case .install(let transfer): install(transfer)
        case .abandon(let transfer): abandon(transfer)
        case .tell(let waiter, let error): tell(waiter, error)
        case .serve(let request): driver.serving.serve(request)
        case .refuse(let request): driver.dialect.refuse(request.handle, .tooManyQueued(driver.limits.queuedRequests))
        }
    }

    /// Policies decide by the lengths that a document gives, so they have to be true before it is stored.
    private func tell(_ waiter: BlobWaiter, _ error: ReplicationError?) {
        @Sendable func tell(_ driver: SessionDriver, _ error: ReplicationError?) {
            driver.tell(driver.links[waiter.slot], pull: .insertion(.blobsFetched(waiter.fetch, error)))
        }
        let blobs = error == nil ? received.withSizes(waiter) : []
        guard !blobs.isEmpty else { return tell(driver, error) }
        work { store -> ReplicationError? in
            for blob in blobs {
                if let size = store.size(blob.digest), let reason = blob.wrongLengthReason(size: size) { return .malformed(reason) }
            }
            return nil
        } then: {
            tell($0, $1)
        } failed: { driver, error in
            driver.log(error)
            tell(driver, ReplicationError(store: error))
        }
    }

    private func look(_ transfer: BlobTransfer) {
        work { [arrived = received.arrived] in $0.contains(transfer.digest, arrived: arrived) } then: {
            $0.blobs.settleUnnamed(transfer.digest)
            $0.tell(blobs: .looked(transfer, isHere: $1))
        } failed: { $0.blobs.failTransfer(transfer, $1) }
    }

    private func askProof(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID) {
        let nonce = driver.environment.random.bytes(20)
        files.nonces[transfer] = nonce
        driver.dialect.requestProof(transfer, slot, for: document, nonce: nonce)
    }

    private func checkProof(_ transfer: BlobTransfer, _ proof: BlobDigest) {
        guard let nonce = files.nonces.removeValue(forKey: transfer) else { return }
        let failed: @Sendable (SessionDriver, any Error) -> Void = { driver, error in
            driver.log(error)
            driver.tell(blobs: .proofChecked(transfer, .unknown))
        }
        work { try PendingProof(transfer.digest, nonce: nonce, $0) } then: { driver, pending in
            driver.proofs.advance(pending) { $0.tell(blobs: .proofChecked(transfer, $1 == proof ? .right : .wrong)) } failed: { failed($0, $1) }
        } failed: { failed($0, $1) }
    }

    private func begin(_ transfer: BlobTransfer, resumes: Bool) {
        files.nonces[transfer] = nil
        let (owner, length) = (resumes ? driver.role.blobOwner : nil, machine.size(of: transfer))
        work { blobs -> (BlobWriter, UInt64) in
            if let owner, let writer = try blobs.resumedWriter(transfer.digest, of: owner, length: length) { return (writer, writer.size) }
            return (try blobs.writer(length: length), 0)
        } then: { driver, opened in
            driver.blobs.files.written[transfer] = BlobFiles.Written(writer: opened.0, offset: opened.1)
            driver.tell(blobs: .writerOpened(transfer, offset: opened.1))
        } failed: { $0.blobs.failTransfer(transfer, $1) }
    }

    private func request(_ transfer: BlobTransfer, _ slot: Int, for document: DocumentID, compresses: Bool, offset: UInt64) {
        var underWay = BlobUnderWay(.pull, document, transfer.digest.text, size: machine.size(of: transfer))
        underWay.bytes = offset
        files.written[transfer]?.ticket = driver.counters.blobs.begin(underWay)
        driver.dialect.requestBlob(transfer, slot, for: document, compresses: compresses, offset: offset)
    }

    private func write(_ transfer: BlobTransfer, _ bytes: ByteBuffer) {
        files.written[transfer]?.waiting.append(bytes)
        driver.counters.moved(files.written[transfer]?.ticket, by: bytes.readableBytes)
        writeNext(transfer)
    }

    private func install(_ transfer: BlobTransfer) {
        driver.dialect.forget(transfer)
        guard let written = endWriting(transfer) else { return }
        work { [arrived = received.arrived] _ in try written.writer.finish(expecting: transfer.digest, arrived: arrived) } then: { driver, _ in
            driver.blobs.settleUnnamed(transfer.digest)
            driver.tell(blobs: .installed(transfer))
        } failed: { driver, error in
            // The data from the earlier connection may be the wrong part; this peer's document must not be given up for that.
            if written.offset > 0, case StoreError.blobDigestMismatch? = error as? StoreError { return driver.tell(blobs: .assembledWrongly(transfer)) }
            driver.blobs.failTransfer(transfer, error)
        }
    }

    private func abandon(_ transfer: BlobTransfer) {
        driver.dialect.abandon(transfer)
        _ = endWriting(transfer)
        files.nonces[transfer] = nil
    }

    private func endWriting(_ transfer: BlobTransfer) -> BlobFiles.Written? {
        let written = files.written.removeValue(forKey: transfer)
        if let ticket = written?.ticket { driver.counters.blobs.end(ticket) }
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
        } then: { driver, _ in
            guard driver.blobs.files.written[transfer] != nil else { return }
            driver.blobs.files.written[transfer]?.isWriting = false
            driver.tell(blobs: .written(transfer, bytes: pieces.reduce(0) { $0 + $1.readableBytes }))
            driver.blobs.writeNext(transfer)
        } failed: { if $0.blobs.files.written[transfer] != nil { $0.blobs.failTransfer(transfer, $1) } }
    }

    /// The data goes into a new file, because the blob is sent from its first byte.
    private func startOver(_ transfer: BlobTransfer) {
        // Nothing may be written in the meantime.
        files.written[transfer]?.isWriting = true
        if let ticket = files.written[transfer]?.ticket { driver.counters.blobs.rewind(ticket) }
        let (before, length) = (files.written[transfer]?.writer, machine.size(of: transfer))
        work { blobs in
            // Free its space first.
            before?.cancel()
            return try blobs.writer(length: length)
        } then: { driver, writer in
            guard driver.blobs.files.written[transfer] != nil else { return }
            driver.blobs.files.written[transfer]?.writer = writer
            driver.blobs.files.written[transfer]?.offset = 0
            driver.blobs.files.written[transfer]?.isWriting = false
            driver.blobs.writeNext(transfer)
        } failed: { if $0.blobs.files.written[transfer] != nil { $0.blobs.failTransfer(transfer, $1) } }
    }

    /// The connection has ended: partly received blobs are kept for the next one.
    func end() {
        if let owner = driver.role.blobOwner {
            for (transfer, written) in files.written.sorted(by: { $0.key.number < $1.key.number }) {
                // Without the bytes that are still queued: those are dropped.
                let writer = written.writer
                driver.database.blobs.perform({ $0.keepUnfinished(writer, transfer.digest, of: owner) }, completion: { _ in })
            }
        }
        files.end()
        // The next connection can use the complete ones, too.
        received.arrived.close()
        driver.database.blobs.leave(received.arrived)
    }

    private func failTransfer(_ transfer: BlobTransfer, _ error: any Error) {
        let failure: ReplicationError
        switch error as? StoreError {
        case .blobDigestMismatch?, .blobLengthMismatch?: failure = .malformed("\(error)")
        case .blobTooLarge?: failure = .tooLarge("\(error)")
        case .diskFull?: failure = ReplicationError(store: error)
        default:
            // A disk error or too many open files: temporary, and must not cost the peer its edit.
            var passing = ReplicationError(store: error)
            (passing.code, passing.isTransient) = (503, true)
            failure = passing
        }
        driver.tell(blobs: .failed(transfer, failure))
    }

    // MARK: - Needed blobs

    /// Requests the blobs of a received revision. The peer need not show blobs that it may have in any case: those it showed before, and those of the
    /// document's current revision if the peer may see that.
    func need(_ fetch: FetchID, _ revision: CheckedRevision, _ link: CollectionLink) {
        let (waiter, id, blobs) = (BlobWaiter(slot: link.slot, fetch: fetch), revision.id, revision.ownBlobs)
        let limit = driver.limits.knownBlobBytes
        // What peers push is judged by what it says; what is pulled, only where there is a filter. The rest comes as the remote has it.
        let compares = driver.isPassive || link.pullFilter != nil
        received.name(blobs, waiter, comparesLengths: compares)
        if revision.hasShownBlobs { return driver.tell(blobs: .needed(waiter, id, blobs, known: .all, comparesLengths: compares)) }
        if let source = driver.isPassive ? nil : link.source {
            let wanted = blobs.map(\.digest)
            return driver.read { try source.knownBlobs($0, id, wanted, limit: limit) } then: { $0.tell(blobs: .needed(waiter, id, blobs, known: .some($1), comparesLengths: compares)) }
        }
        driver.service.view(link) { driver, view in
            driver.attempt { try await view.blobs(of: id, limit: limit) } then: {
                $0.tell(blobs: .needed(waiter, id, blobs, known: .some($1)))
            } failed: { driver, error in
                guard let damage = error as? StoreError, damage.concernsOneDocument else { return driver.fail(error) }
                // The stored document cannot be read, and the new revision may repair it: the peer has to show all blobs.
                driver.tell(blobs: .needed(waiter, id, blobs, known: .some([])))
            }
        } failed: { $0.fail($1) }
    }

    /// Revisions that name blobs are finished.
    ///
    /// - Parameters:
    ///   - refused: blobs that these brought are deleted, unless something stored names them.
    ///   - staying: stored, or expected again soon: their blobs are kept, at least for the grace period.
    func release(_ refused: [FetchID], staying: [FetchID], _ link: CollectionLink) {
        func waiters(_ fetches: [FetchID]) -> [BlobWaiter] { fetches.map { BlobWaiter(slot: link.slot, fetch: $0) } }
        if let arrived = received.end(waiters(staying)) { driver.database.blobs.leave(arrived) }
        if let arrived = received.end(waiters(refused)) { settle(arrived) }
    }

    /// Handles a blob that arrived, or was found, after the revision that needed it had ended because another of its blobs could not be obtained.
    private func settleUnnamed(_ digest: BlobDigest) {
        if !received.isNamed(digest), let arrived = received.arrived.take([digest]) { settle(arrived) }
    }

    private func settle(_ arrived: ArrivedBlobs) {
        let database = driver.database
        driver.ask { await database.settle(arrived) } then: { _, _ in }
    }

    // MARK: - Work on the blob workers

    /// Runs `body` with the blob files, and continues on the session.
    func work<T: Sendable>(
        _ body: @escaping @Sendable (BlobStore) throws -> T, then: @escaping @Sendable (SessionDriver, T) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        guard let owner = driver.owner else { return }
        driver.database.blobs.perform(body) { result in owner.deliver(result, then, failed) }
    }
}
