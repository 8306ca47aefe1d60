import Documents

extension Replicator {
    /// `resumed_blobs`: number of blobs whose resume offset is remembered.
    private static let most = 100

    /// A blob resumes after what the previous connection transferred of it: that connection does not count as a failure if it got further than the
    /// one before. If a blob breaks at the same place each time, the pauses grow, and a one-shot replication gives up.
    nonisolated func noteResumed(_ digest: BlobDigest, _ offset: UInt64) {
        let isFurther = shared.withLock { shared in
            if shared.resumedBlobs.count >= Self.most { shared.resumedBlobs = [:] }
            defer { shared.resumedBlobs[digest] = offset }
            return offset > shared.resumedBlobs[digest] ?? 0
        }
        if isFurther { noteProgress() }
    }
}
