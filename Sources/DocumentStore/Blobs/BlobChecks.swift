import Documents
import Environment
import Synchronization

extension BlobStore {
    /// Verifies a blob by reading all of it, before any part of it is sent: a part alone cannot be compared with the digest, the whole only at its
    /// end, and by then what was sent cannot be taken back. As long as the file is unchanged it is not read again, and concurrent callers share one
    /// check.
    ///
    /// - Parameter pieceBytes: how much one job reads: others get their turn in between, and the task may be cancelled.
    /// - Throws: `StoreError.blobAltered`, `.blobMissing`, `.tooManyOpenBlobs`; `CancellationError`.
    public func check(_ digest: BlobDigest, pieceBytes: Int) async throws {
        guard let check = try await perform({ try $0.beginCheck(digest, pieceBytes: pieceBytes) }) else { return }
        var isDone = false
        while !isDone {
            try Task.checkCancellation()
            isDone = try await perform { try $0.advance(check, bytes: pieceBytes) }
        }
    }

    /// Starts to verify a blob, for callers that are not tasks; ``advance(_:bytes:)`` continues. Blocks: call it inside ``perform(_:)``.
    ///
    /// - Returns: nil if the blob is known to be intact, or fit into the first piece.
    /// - Throws: as ``check(_:pieceBytes:)``.
    package func beginCheck(_ digest: BlobDigest, pieceBytes: Int) throws(StoreError) -> BlobCheck? {
        guard let check = try begin(digest) else { return nil }
        return try advance(check, bytes: pieceBytes) ? nil : check
    }

    /// - Returns: nil if the blob is known to be intact.
    private func begin(_ digest: BlobDigest) throws(StoreError) -> BlobCheck? {
        let facts: FileFacts
        // Before it is opened: a file that replaces it in the meantime has other facts.
        do throws(FileError) { facts = try files.facts(path(digest)) } catch {
            if error.isMissing {
                noteMissed(digest)
                throw .blobMissing(digest: digest.text)
            }
            throw StoreError(error)
        }
        let (isRight, running) = checks.withLock { ($0.isRight(digest, facts), $0.running(digest, facts)) }
        switch isRight {
        case true?: return nil
        case false?: throw .blobAltered(digest: digest.text, path: path(digest))
        case nil: break
        }
        if let running { return running }
        let made = BlobCheck(digest, facts, try reader(digest), began: now)
        return checks.withLock { $0.begin(made) }
    }

    /// Reads the next piece. Blocks.
    ///
    /// - Returns: whether everything was read, and the blob is intact.
    package func advance(_ check: BlobCheck, bytes: Int) throws(StoreError) -> Bool {
        do throws(StoreError) {
            let isDone = try check.advance(bytes: bytes)
            if isDone { checks.withLock { $0.end(check, isRight: true) } }
            return isDone
        } catch {
            // Other errors say nothing about its bytes.
            let isAltered = if case .blobAltered = error { true } else { false }
            checks.withLock { $0.end(check, isRight: isAltered ? false : nil) }
            throw error
        }
    }
}

/// The verification of a blob, piece by piece, shared by everybody who waits for it.
package final class BlobCheck: Sendable {
    private struct State {
        /// Nil at the end: the callers open the blob next, and there may be a place for one file only.
        var reader: BlobReader?
        var offset: UInt64 = 0
        var failure: StoreError?
    }

    let digest: BlobDigest
    /// Facts of its file before it was opened.
    let facts: FileFacts
    /// Seconds since 1970.
    let began: Int64
    private let state: Mutex<State>

    init(_ digest: BlobDigest, _ facts: FileFacts, _ reader: BlobReader, began: Int64) {
        (self.digest, self.facts, self.began) = (digest, facts, began)
        state = Mutex(State(reader: reader))
    }

    /// Reads the next piece; the reader compares the digest after the last one.
    /// - Returns: whether everything was read, and the blob is intact.
    func advance(bytes count: Int) throws(StoreError) -> Bool {
        let result: Result<Bool, StoreError> = state.withLock { state in
            if let failure = state.failure { return .failure(failure) }
            guard let reader = state.reader else { return .success(true) }
            do throws(StoreError) {
                let bytes = try reader.read(offset: state.offset, count: count)
                state.offset += UInt64(bytes.count)
            } catch {
                (state.failure, state.reader) = (error, nil)
                return .failure(error)
            }
            guard state.offset >= reader.size else { return .success(false) }
            state.reader = nil
            return .success(true)
        }
        return try result.get()
    }
}

/// Results of blob verifications, and those in progress.
struct BlobChecks {
    private struct Verdict {
        var facts: FileFacts
        var isRight: Bool
    }

    private struct Running {
        /// Kept alive by the callers that wait for it.
        weak var check: BlobCheck?
    }

    private var verdicts: [BlobDigest: Verdict] = [:]
    private var running: [BlobDigest: Running] = [:]

    /// Nil if its file has not been verified in its current state.
    func isRight(_ digest: BlobDigest, _ facts: FileFacts) -> Bool? {
        guard let verdict = verdicts[digest], verdict.facts == facts else { return nil }
        return verdict.isRight
    }

    /// Its bytes were found to be altered.
    mutating func forget(_ digest: BlobDigest) { verdicts[digest] = nil }

    func running(_ digest: BlobDigest, _ facts: FileFacts) -> BlobCheck? {
        guard let check = running[digest]?.check, check.facts == facts else { return nil }
        return check
    }

    /// - Returns: the check to continue with: another one may have begun in the meantime.
    mutating func begin(_ check: BlobCheck) -> BlobCheck {
        if let other = running(check.digest, check.facts) { return other }
        // Checks of cancelled tasks are still listed.
        if running.count >= StoreLimits.checkedBlobs { running = running.filter { $0.value.check != nil } }
        running[check.digest] = Running(check: check)
        return check
    }

    /// - Parameter isRight: nil if unknown.
    mutating func end(_ check: BlobCheck, isRight: Bool?) {
        if running[check.digest]?.check === check { running[check.digest] = nil }
        // A file changed at about the time of the check may be changed again without getting a different timestamp.
        guard let isRight, (check.facts.modified &- check.began).magnitude > 1 else { return }
        if verdicts.count >= StoreLimits.checkedBlobs { verdicts = [:] }
        verdicts[check.digest] = Verdict(facts: check.facts, isRight: isRight)
    }
}
