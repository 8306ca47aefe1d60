import Documents
import DocumentStore

/// Proves to a peer that a blob is here, and computes the proof that a peer's is compared with.
struct BlobProver {
    let driver: SessionDriver

    /// Answers a peer that is allowed to have the blob.
    func prove(_ request: BlobRequest, nonce: [UInt8], refuse: @escaping @Sendable (SessionDriver, any Error) -> Void) {
        let (handle, digest) = (request.handle, request.digest)
        let question = BlobProofs.Question(digest: digest, nonce: nonce)
        if let proof = driver.blobs.files.proofs.known(question) { return giveProof(proof, handle) }
        driver.blobs.work { try PendingProof(digest, nonce: nonce, $0) } then: { driver, pending in
            let (accounts, account) = driver.proofs.proofAccount
            guard accounts.charge(digest, bytes: pending.size, to: account, at: driver.environment.time.monotonicNanoseconds()) else {
                let limits = driver.limits
                driver.dialect.refuse(handle, .notNow(
                    "more proofs of one blob were asked for than proof_bytes (\(limits.proofBytes)) and "
                        + "proof_bytes_per_second (\(limits.proofBytesPerSecond)) allow"))
                return driver.tell(blobs: .served(handle))
            }
            driver.proofs.advance(pending) { driver, proof in
                driver.blobs.files.proofs.learn(question, proof)
                driver.proofs.giveProof(proof, handle)
            } failed: { refuse($0, $1) }
        } failed: { refuse($0, $1) }
    }

    /// The account charged for proofs: all connections of one peer share it.
    private var proofAccount: (ProofAccounts, String) {
        switch driver.role {
        case .active(let active): (active.replicator.proofs, active.replicator.target)
        case .passive(let passive): (passive.proofs, passive.proofAccount)
        }
    }

    private func giveProof(_ proof: BlobDigest, _ handle: AnswerHandle) {
        driver.dialect.answer(handle, proof: proof)
        driver.tell(blobs: .served(handle))
    }

    /// Computes a proof piece by piece, each piece a separate job, so that other connections' blobs make progress in between. It is abandoned when
    /// this connection or the database ends.
    func advance(
        _ pending: PendingProof, then: @escaping @Sendable (SessionDriver, BlobDigest) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        guard !driver.hasEnded else { return }
        let count = driver.limits.proofPieceBytes
        driver.blobs.work { _ in try pending.advance(bytes: count) } then: { driver, proof in
            if let proof { then(driver, proof) } else { driver.proofs.advance(pending, then: then, failed: failed) }
        } failed: { failed($0, $1) }
    }
}
