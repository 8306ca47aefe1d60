import Documents

extension BlobStore {
    /// What is wrong with the lengths that a document gives for its blobs; nil if they are those of the blobs that are here. Policies decide by them.
    package func wrongLength(_ references: [BlobReference]) async throws -> String? {
        for reference in references {
            if let reason = reference.falseLengthReason { return reason }
        }
        let claims = references.filter { $0.claimedSize != nil }
        if claims.isEmpty { return nil }
        return try await perform { blobs in
            for claim in claims {
                if let size = blobs.size(claim.digest), let reason = claim.wrongLengthReason(size: size) { return reason }
            }
            return nil
        }
    }
}
