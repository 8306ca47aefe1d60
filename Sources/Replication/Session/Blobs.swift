import BLIP
import Digests
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// A peer's request for a blob, or for the proof that we hold it.
struct BlobRequest {
    var number: UInt64
    var digest: BlobDigest
    var compresses = false
    /// Of `proveAttachment`; nil for `getAttachment`.
    var nonce: [UInt8]?
}

/// Blobs: ours that the peer asks for, and the peer's that a revision needs before it can be stored.
extension ReplicationSession {
    func handleGetAttachment(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let digest = try digest(request)
        guard !request.isNoReply else { return }
        try checkLent(digest)
        blobRequests.append(
            BlobRequest(number: request.number, digest: digest, compresses: isTrue(request.properties[Property.compress])))
        serveBlobs()
    }

    func handleProveAttachment(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let digest = try digest(request)
        let nonce = [UInt8](request.body.readableBytesView)
        guard (1...255).contains(nonce.count) else { throw .bad("the nonce of proveAttachment has 1 to 255 bytes, not \(nonce.count)") }
        guard !request.isNoReply else { return }
        try checkLent(digest)
        blobRequests.append(BlobRequest(number: request.number, digest: digest, nonce: nonce))
        serveBlobs()
    }

    private func digest(_ request: IncomingRequest) throws(MessageError) -> BlobDigest {
        guard let text = request.properties[Property.digest] else { throw .bad("\(request.profile) needs the property digest") }
        do { return try BlobDigest(text) } catch { throw .bad("\(error)") }
    }

    /// Serves waiting requests, few at a time and only as fast as the peer takes what is sent: each is a whole blob in memory.
    func serveBlobs() {
        while blobRequestsHead < blobRequests.count, blobReads < limits.blobReads, outgoingBytes < limits.outgoingBlobBytes {
            let request = blobRequests[blobRequestsHead]
            blobRequestsHead += 1
            if blobRequestsHead == blobRequests.count || blobRequestsHead >= 1024 {
                blobRequests.removeFirst(blobRequestsHead)
                blobRequestsHead = 0
            }
            blobReads += 1
            work {
                await self.serve(request)
                self.blobReads -= 1
            }
        }
    }

    private func serve(_ request: BlobRequest) async {
        let limit = limits.maximumBlobBytes
        let digest = request.digest
        let nonce = request.nonce
        do {
            let answer = try await database.blobs.perform { blobs in
                let bytes = try blobs.read(digest, limit: limit)
                return nonce.map { ByteBuffer(string: BlobDigest.of([UInt8($0.count)] + $0 + bytes).text) } ?? ByteBuffer(bytes: bytes)
            }
            reply(to: request.number, OutgoingReply(body: answer, isCompressed: request.compresses))
        } catch StoreError.blobMissing {
            refuse(request.number, 404, "no such blob: \(digest)")
        } catch { storeFailed(request.number, error) }
    }

    // MARK: - Fetching

    /// Fetches what the revisions of a batch refer to and we lack. A revision whose blob cannot be had is taken out: its
    /// sequence stays open, so that the next run asks for it again, and the peer is told to keep it.
    func fetchBlobs(_ sync: CollectionSync, _ batch: [CheckedRevision]) async -> [CheckedRevision] {
        let needy = batch.indices.filter { !batch[$0].blobs.isEmpty }
        guard !needy.isEmpty else { return batch }
        var failures: [Int: ReplicationError] = [:]
        let slot = sync.slot
        await withTaskGroup(of: (Int, ReplicationError?).self) { group in
            var next = 0
            func begin() {
                guard next < needy.count else { return }
                let index = needy[next]
                let revision = batch[index]
                next += 1
                group.addTask { (index, await self.fetchAll(revision.blobs, slot, for: revision.id)) }
            }
            for _ in 0..<limits.blobFetches { begin() }
            while let (index, failure) = await group.next() {
                failures[index] = failure
                begin()
            }
        }
        if hasEnded { return [] }
        guard !failures.isEmpty else { return batch }
        var complete: [CheckedRevision] = []
        complete.reserveCapacity(batch.count)
        for (index, revision) in batch.enumerated() {
            guard let failure = failures[index] else {
                complete.append(revision)
                continue
            }
            let code = failure.isTransient ? 503 : failure.domain == .http && [404, 413].contains(failure.code) ? failure.code : 400
            refuse(revision.replyTo, code, "blob of \(revision.id): \(failure.message)")
            counters.update {
                $0.failed += 1
                $0.completed += 1
            }
            report(DocumentEvent(id: revision.id, collection: sync.collection.name, direction: .pull, error: failure))
        }
        return complete
    }

    /// The first failure; nil when all are here.
    private func fetchAll(_ references: [BlobReference], _ slot: Int, for id: DocumentID) async -> ReplicationError? {
        for reference in references {
            if hasEnded { return ReplicationError(domain: .websocket, code: 1006, message: "the connection ended") }
            if let failure = await fetch(reference, slot, for: id) { return failure }
        }
        return nil
    }

    /// Nil when the blob is here.
    private func fetch(_ reference: BlobReference, _ slot: Int, for id: DocumentID) async -> ReplicationError? {
        let digest = reference.digest
        do {
            if try await database.blobs.perform({ $0.contains(digest) }) { return nil }
            if let length = reference.length, length > UInt64(limits.maximumBlobBytes) {
                return ReplicationError(
                    domain: .http, code: 413,
                    message: "the blob \(digest) has \(length) bytes, max_blob_bytes is \(limits.maximumBlobBytes)")
            }
            var message = request(Profile.getAttachment, collections[slot])
            message.properties.append(Property.digest, digest.text)
            message.properties.append(Property.docID, id.text)
            if reference.isCompressible { message.properties.append(Property.compress, "true") }
            blobsAwaited += 1
            defer { blobsAwaited -= 1 }
            guard let answer = await ask(message) else {
                return ReplicationError(domain: .websocket, code: 1006, message: "the connection ended")
            }
            if let error = answer.error { return ReplicationError(reply: error, to: Profile.getAttachment) }
            let bytes = [UInt8](answer.body.readableBytesView)
            _ = try await database.blobs.perform { try $0.install(bytes, expecting: digest) }
            return nil
        } catch {
            if case StoreError.blobDigestMismatch? = error as? StoreError {
                return ReplicationError(domain: .http, code: 400, message: "\(error)")
            }
            if case StoreError.blobTooLarge? = error as? StoreError {
                return ReplicationError(domain: .http, code: 413, message: "\(error)")
            }
            return ReplicationError(store: error)
        }
    }
}
