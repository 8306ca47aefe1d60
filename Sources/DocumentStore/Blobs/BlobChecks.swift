import Documents
import Environment
import Synchronization

extension BlobStore {
    /// Reads a blob through before any of it is given out: a part alone can be compared with nothing, the whole only at its end, and what was sent by
    /// then cannot be taken back. While its file stays as it was then it is not read again, and who asks at the same time waits for one and the same
    /// look.
    ///
    /// - Parameter pieceBytes: how much one job reads: others get on in between, and the task may be cancelled.
    /// - Throws: `StoreError.blobAltered`, `.blobMissing`, `.tooManyOpenBlobs`; `CancellationError`.
    public func check(_ digest: BlobDigest, pieceBytes: Int) async throws {
        guard let check = try await perform({ try $0.beginCheck(digest, pieceBytes: pieceBytes) }) else { return }
        var isDone = false
        while !isDone {
            try Task.checkCancellation()
            isDone = try await perform { try $0.advance(check, bytes: pieceBytes) }
        }
    }

    /// Begins to read a blob through, for callers that are no tasks; ``advance(_:bytes:)`` goes on. Blocks: call it inside ``perform(_:)``.
    ///
    /// - Returns: nil where the blob is known to be right, or one piece was all of it.
    /// - Throws: as ``check(_:pieceBytes:)``.
    package func beginCheck(_ digest: BlobDigest, pieceBytes: Int) throws(StoreError) -> BlobCheck? {
        guard let check = try begin(digest) else { return nil }
        return try advance(check, bytes: pieceBytes) ? nil : check
    }

    /// - Returns: nil where the blob is known to be right.
    private func begin(_ digest: BlobDigest) throws(StoreError) -> BlobCheck? {
        let facts: FileFacts
        // Before it is opened: what is put in its place meanwhile has others.
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
    /// - Returns: whether all was read, and is right.
    package func advance(_ check: BlobCheck, bytes: Int) throws(StoreError) -> Bool {
        do throws(StoreError) {
            let isDone = try check.advance(bytes: bytes)
            if isDone { checks.withLock { $0.end(check, isRight: true) } }
            return isDone
        } catch {
            // What else goes wrong says nothing of its bytes.
            let isAltered = if case .blobAltered = error { true } else { false }
            checks.withLock { $0.end(check, isRight: isAltered ? false : nil) }
            throw error
        }
    }
}

/// A blob that is read through, piece by piece, for all who wait for it.
package final class BlobCheck: Sendable {
    private struct State {
        /// Nil at the end: who waited for it opens the blob next, and there may be a place for one file only.
        var reader: BlobReader?
        var offset: UInt64 = 0
        var failure: StoreError?
    }

    let digest: BlobDigest
    /// Of its file before it was opened.
    let facts: FileFacts
    /// Seconds since 1970.
    let began: Int64
    private let state: Mutex<State>

    init(_ digest: BlobDigest, _ facts: FileFacts, _ reader: BlobReader, began: Int64) {
        (self.digest, self.facts, self.began) = (digest, facts, began)
        state = Mutex(State(reader: reader))
    }

    /// Reads the next piece, which the reader compares with the digest when it is the last.
    /// - Returns: whether all was read, and is right.
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

/// What is known of blobs that were read through, and those that are being read.
struct BlobChecks {
    private struct Verdict {
        var facts: FileFacts
        var isRight: Bool
    }

    private struct Running {
        /// Held by those who wait for it.
        weak var check: BlobCheck?
    }

    private var verdicts: [BlobDigest: Verdict] = [:]
    private var running: [BlobDigest: Running] = [:]

    /// Nil where its file was not read through as it is.
    func isRight(_ digest: BlobDigest, _ facts: FileFacts) -> Bool? {
        guard let verdict = verdicts[digest], verdict.facts == facts else { return nil }
        return verdict.isRight
    }

    /// Its bytes were found to be others.
    mutating func forget(_ digest: BlobDigest) { verdicts[digest] = nil }

    func running(_ digest: BlobDigest, _ facts: FileFacts) -> BlobCheck? {
        guard let check = running[digest]?.check, check.facts == facts else { return nil }
        return check
    }

    /// - Returns: the one that is to go on: another may have begun meanwhile.
    mutating func begin(_ check: BlobCheck) -> BlobCheck {
        if let other = running(check.digest, check.facts) { return other }
        // Those of tasks that were cancelled are still named.
        if running.count >= StoreLimits.checkedBlobs { running = running.filter { $0.value.check != nil } }
        running[check.digest] = Running(check: check)
        return check
    }

    /// - Parameter isRight: nil where that is not known.
    mutating func end(_ check: BlobCheck, isRight: Bool?) {
        if running[check.digest]?.check === check { running[check.digest] = nil }
        // A file that was changed about when the look began may be changed again without another time.
        guard let isRight, (check.facts.modified &- check.began).magnitude > 1 else { return }
        if verdicts.count >= StoreLimits.checkedBlobs { verdicts = [:] }
        verdicts[check.digest] = Verdict(facts: check.facts, isRight: isRight)
    }
}
