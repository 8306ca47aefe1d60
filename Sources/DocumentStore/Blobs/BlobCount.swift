import Documents
import Environment
import Synchronization

/// What the blobs of a database come to, for `StoreUsage.blobBytes`: those that come and go are counted as they do, those that were there when it was
/// opened one after the other, also while it is at work.
final class BlobCount: Sendable {
    private struct State {
        /// Blobs up to this name are counted, in the order of names; nil while nobody counts.
        var last: String?
        /// Those behind it that came or went meanwhile, with the bytes that they had before. The change itself is counted.
        var moved: [BlobDigest: Int] = [:]
        /// Found so far.
        var bytes = 0
    }

    private let state = Mutex(State())
    private let usage: StoreUsage

    init(_ usage: StoreUsage) { self.usage = usage }

    /// Gives or takes a blob its file, and counts what this makes of it.
    ///
    /// - Parameter change: returns what the file has then.
    /// - Returns: what it had before.
    @discardableResult
    func changing(
        _ digest: BlobDigest, from size: () -> UInt64?, _ change: () throws(FileError) -> UInt64?
    ) throws(FileError) -> UInt64? {
        let result: Result<UInt64?, FileError> = state.withLock { state in
            let before = size()
            if let last = state.last, state.moved[digest] == nil, last < digest.hex { state.moved[digest] = Int(clamping: before ?? 0) }
            let after = Result { () throws(FileError) in try change() }
            if case .success(let bytes) = after { usage.changedBlobs(by: Int(clamping: bytes ?? 0) - Int(clamping: before ?? 0)) }
            return after.map { _ in before }
        }
        return try result.get()
    }

    /// Before a look at which blobs there are. What was counted until now is among them.
    func begin() {
        state.withLock { state in
            state = State(last: "")
            usage.forgetBlobs()
        }
    }

    /// The next ones, in the order of names.
    func add(_ digests: ArraySlice<BlobDigest>, size: (BlobDigest) -> UInt64?) {
        state.withLock { state in
            for digest in digests { state.bytes += state.moved.removeValue(forKey: digest) ?? Int(clamping: size(digest) ?? 0) }
            if let last = digests.last { state.last = last.hex }
        }
    }

    /// They cannot be counted.
    func giveUp() { state.withLock { $0 = State() } }

    /// There are no more.
    func end() {
        state.withLock { state in
            usage.countedBlobs(state.bytes)
            state = State()
        }
    }
}

extension BlobStore {
    /// Blobs whose sizes are asked for while those that come and go wait.
    private static let countedAtOnce = 64

    /// Counts the bytes of all blobs, for `StoreUsage.blobBytes`. Blocks.
    public func count() throws(StoreError) {
        tally.begin()
        tally.add(try digests()[...]) { size($0) }
        tally.end()
    }

    /// The same while others work with blobs; until it has ended, `StoreUsage.areBlobsKnown` is false. Nothing is done where it is true already.
    public func countMeanwhile() async throws {
        guard !usage.areBlobsKnown else { return }
        do {
            let digests = try await perform { blobs in
                blobs.tally.begin()
                return try blobs.digests()
            }
            for start in stride(from: 0, to: digests.count, by: Self.countedAtOnce) {
                let some = digests[start..<min(start + Self.countedAtOnce, digests.count)]
                try await perform { blobs in blobs.tally.add(some) { blobs.size($0) } }
            }
            tally.end()
        } catch {
            tally.giveUp()
            throw error
        }
    }
}
