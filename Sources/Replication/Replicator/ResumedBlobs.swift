import Documents

extension Replicator {
    /// `resumed_blobs`: of so many it is remembered where they went on.
    private static let most = 100

    /// A blob goes on behind what the connection before has moved of it: that was no failure of the line, if it came further than the one before
    /// it. Where a blob breaks at the same place each time, the pauses grow, and a one-shot gives up.
    nonisolated func noteResumed(_ digest: BlobDigest, _ offset: UInt64) {
        let isFurther = shared.withLock { shared in
            if shared.resumedBlobs.count >= Self.most { shared.resumedBlobs = [:] }
            defer { shared.resumedBlobs[digest] = offset }
            return offset > shared.resumedBlobs[digest] ?? 0
        }
        if isFurther { noteFlow() }
    }
}
