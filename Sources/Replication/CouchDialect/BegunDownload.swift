import Digests
import Documents
import DocumentStore
import Interfaces

/// What is known about the beginning of an attachment besides its bytes; another connection needs it to continue.
struct BegunDownload: Sendable {
    var progress: DownloadProgress
    var counted = CountedOnce()
}

extension CouchDialect {
    /// The key under which the beginning of an attachment is found again. The store keeps unfinished blobs by digest, which for an attachment is
    /// unknown until its end.
    static func key(_ name: AttachmentName, _ path: String) -> BlobDigest? {
        let text = name.digest.isEmpty ? path : "\(name.id.text)\u{0}\(name.name)\u{0}\(name.digest)"
        return BlobDigest(bytes: SHA1.hash(Array(text.utf8)))
    }

    /// A writer that continues what an earlier connection received of the attachment, or a new one.
    func begin(_ key: BlobDigest?, length: UInt64?, md5: [UInt8]?) async throws -> (BlobWriter, BegunDownload) {
        let owner = blobOwner
        let (writer, begun) = try await database.blobs.perform { blobs -> (BlobWriter, BegunDownload?) in
            if let key, let owner, let writer = try blobs.resumedWriter(key, of: owner, length: length) {
                // A piece that was being written when the connection ended may be missing.
                if let begun = writer.note as? BegunDownload, begun.progress.count == writer.size { return (writer, begun) }
                writer.cancel()
            }
            return (try blobs.writer(length: length), nil)
        }
        guard let begun else { return (writer, BegunDownload(progress: DownloadProgress(length: length, md5: md5))) }
        if let key { noteResumed(key, begun.progress.count) }
        return (writer, begun)
    }

    /// Keeps what was received, if another connection may get the rest.
    func keep(_ writer: BlobWriter, _ begun: BegunDownload, _ key: BlobDigest?, after error: any Error) {
        let mayGoOn = (error as? ReplicationError)?.isTransient ?? !(error is StoreError)
        guard mayGoOn, let key, let owner = blobOwner else { return }
        writer.note = begun
        database.blobs.perform({ $0.keepUnfinished(writer, key, of: owner) }, completion: { _ in })
    }
}
