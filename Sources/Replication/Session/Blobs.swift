import BLIP
import Digests
import Documents
import DocumentStore
import NIOCore

/// Blobs: ours that the peer asks for, and the peer's that a revision needs before it can be stored.
extension ReplicationSession {
    func handleGetAttachment(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let digest = try digest(request)
        let compress = isTrue(request.properties[Property.compress])
        work {
            do {
                let limit = self.limits.maximumBlobBytes
                let bytes = try await self.database.blobs.perform { try $0.read(digest, limit: limit) }
                self.reply(
                    to: request.number, OutgoingReply(body: ByteBuffer(bytes: bytes), isCompressed: compress))
            } catch StoreError.blobMissing {
                self.refuse(request.number, 404, "no such blob: \(digest)")
            } catch { self.storeFailed(request.number, error) }
        }
    }

    func handleProveAttachment(_ request: IncomingRequest) throws(MessageError) {
        _ = try sync(for: request)
        let digest = try digest(request)
        let nonce = [UInt8](request.body.readableBytesView)
        guard (1...255).contains(nonce.count) else { throw .bad("the nonce of proveAttachment has 1 to 255 bytes, not \(nonce.count)") }
        work {
            do {
                let limit = self.limits.maximumBlobBytes
                let proof = try await self.database.blobs.perform { blobs in
                    BlobDigest.of([UInt8(nonce.count)] + nonce + (try blobs.read(digest, limit: limit)))
                }
                self.reply(to: request.number, OutgoingReply(body: ByteBuffer(string: proof.text)))
            } catch StoreError.blobMissing {
                self.refuse(request.number, 404, "no such blob: \(digest)")
            } catch { self.storeFailed(request.number, error) }
        }
    }

    private func digest(_ request: IncomingRequest) throws(MessageError) -> BlobDigest {
        guard let text = request.properties[Property.digest] else { throw .bad("\(request.profile) needs the property digest") }
        do { return try BlobDigest(text) } catch { throw .bad("\(error)") }
    }

    // MARK: - Fetching

    /// Fetches what the revisions of a batch refer to and we lack. A revision whose blob cannot be had is taken out: its
    /// sequence stays open, so that the next run asks for it again, and the peer is told to keep it.
    func fetchBlobs(_ sync: CollectionSync, _ batch: [CheckedRevision]) async -> [CheckedRevision] {
        var complete: [CheckedRevision] = []
        complete.reserveCapacity(batch.count)
        for revision in batch {
            var failure: ReplicationError?
            for reference in revision.blobs where failure == nil {
                failure = await fetch(sync, reference, for: revision.id)
                if hasEnded { return [] }
            }
            guard let failure else {
                complete.append(revision)
                continue
            }
            refuse(revision.replyTo, failure.isTransient ? 503 : 400, "blob of \(revision.id): \(failure.message)")
            counters.update {
                $0.failed += 1
                $0.completed += 1
            }
            report(DocumentEvent(id: revision.id, collection: sync.collection.name, direction: .pull, error: failure))
        }
        return complete
    }

    /// Nil when the blob is here.
    private func fetch(_ sync: CollectionSync, _ reference: BlobReference, for id: DocumentID) async -> ReplicationError? {
        let digest = reference.digest
        do {
            if try await database.blobs.perform({ $0.contains(digest) }) { return nil }
            if let length = reference.length, length > UInt64(limits.maximumBlobBytes) {
                return ReplicationError(
                    domain: .http, code: 413,
                    message: "the blob \(digest) has \(length) bytes, max_blob_bytes is \(limits.maximumBlobBytes)")
            }
            var message = request(Profile.getAttachment, sync)
            message.properties.append(Property.digest, digest.text)
            message.properties.append(Property.docID, id.text)
            if reference.isCompressible { message.properties.append(Property.compress, "true") }
            guard let answer = await ask(message) else {
                return ReplicationError(domain: .websocket, code: 1006, message: "the connection ended")
            }
            if let error = answer.error { return ReplicationError(reply: error, to: Profile.getAttachment) }
            let bytes = [UInt8](answer.body.readableBytesView)
            _ = try await database.blobs.perform { try $0.install(bytes, expecting: digest) }
            return nil
        } catch let error as StoreError {
            if case .blobDigestMismatch = error { return ReplicationError(domain: .http, code: 400, message: "\(error)") }
            return ReplicationError(store: error)
        } catch {
            return ReplicationError(store: error)
        }
    }
}
