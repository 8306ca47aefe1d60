import Documents
import Interfaces

// Why blobs, and the documents that name them, are refused.
extension BlobMachine {
    /// Of a document, by what it says about its blobs.
    func refusal(_ references: [BlobReference], comparesLengths: Bool) -> ReplicationError? {
        if references.count > limits.maximumBlobsPerDocument {
            return .tooLarge(
                "the document names \(references.count) blobs, max_blobs_per_document is \(limits.maximumBlobsPerDocument)")
        }
        for reference in references {
            if comparesLengths, let reason = reference.falseLengthReason { return .malformed(reason) }
            guard let length = reference.length, length > UInt64(limits.maximumBlobBytes) else { continue }
            return tooLarge(reference.digest, "\(length) bytes")
        }
        return nil
    }

    /// Of a blob of which this many bytes have arrived.
    ///
    /// - Parameter sizes: what the documents that wait for it say, nil for one that says nothing.
    func refusal(of digest: BlobDigest, arrived count: UInt64, sizes: [UInt64?]) -> ReplicationError? {
        if count > UInt64(limits.maximumBlobBytes) { return tooLarge(digest, "\(count) bytes or more") }
        guard !sizes.contains(nil), let most = sizes.compactMap(\.self).max(), count > most else { return nil }
        return .malformed(BlobReference.wrongLengthReason(digest, "\(count) bytes or more", claimed: most))
    }

    private func tooLarge(_ digest: BlobDigest, _ size: String) -> ReplicationError {
        .tooLarge("the blob \(digest) has \(size), limits: { max_blob_bytes } is \(limits.maximumBlobBytes)")
    }
}
