import Documents

extension BlobStore {
    /// What is wrong with the lengths that a document gives for its blobs; nil if they are those of the blobs that are here. Policies decide by them.
    package func wrongLength(_ references: [BlobReference]) async throws -> String? {
        if let wrong = references.first(where: \.hasFalseLength) { return "the document gives the blob \(wrong.digest) a length that no blob has, or several lengths" }
        let claims = references.filter { $0.claimedSize != nil }
        if claims.isEmpty { return nil }
        return try await perform { blobs in
            for claim in claims {
                guard let claimed = claim.claimedSize, let size = blobs.size(claim.digest), size != claimed else { continue }
                return "the blob \(claim.digest) has \(size) bytes, and its document says \(claimed)"
            }
            return nil
        }
    }
}
