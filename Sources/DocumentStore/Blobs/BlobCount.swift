import Documents
import Environment
import Synchronization

/// Sums up the blobs of a database for `StoreUsage.blobBytes`: blobs that come and go are counted immediately, and those that existed when it was
/// opened are counted one after another while it is in use.
final class BlobCount: Sendable {
    private struct State {
        /// Blobs up to this name are counted, in order of name; nil while no count is in progress.
        var last: String?
        /// Later ones that came or went in the meantime, with their previous sizes. The change itself is counted.
        var moved: [BlobDigest: Int] = [:]
        /// Bytes counted so far.
        var bytes = 0
    }

    private let state = Mutex(State())
    private let usage: StoreUsage

    init(_ usage: StoreUsage) { self.usage = usage }

    /// Creates or removes a blob's file, and counts the difference.
    ///
    /// - Parameter change: returns the size of the file afterwards.
    /// - Returns: its size before.
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

    /// Called before the blobs are listed. Blobs counted so far are included in the list.
    func begin() {
        state.withLock { state in
            state = State(last: "")
            usage.forgetBlobs()
        }
    }

    /// The next blobs, in order of name.
    func add(_ digests: ArraySlice<BlobDigest>, size: (BlobDigest) -> UInt64?) {
        state.withLock { state in
            for digest in digests { state.bytes += state.moved.removeValue(forKey: digest) ?? Int(clamping: size(digest) ?? 0) }
            if let last = digests.last { state.last = last.hex }
        }
    }

    /// The blobs cannot be counted.
    func giveUp() { state.withLock { $0 = State() } }

    /// All blobs are counted.
    func end() {
        state.withLock { state in
            usage.countedBlobs(state.bytes)
            state = State()
        }
    }
}

extension BlobStore {
    /// Blobs whose sizes are determined at a time, while changes wait.
    private static let countedAtOnce = 64

    /// Counts the bytes of all blobs, for `StoreUsage.blobBytes`. Blocks.
    public func count() throws(StoreError) {
        tally.begin()
        tally.add(try digests()[...]) { size($0) }
        tally.end()
    }

    /// The same while the blobs are in use; until it has finished, `StoreUsage.areBlobsKnown` is false. Does nothing if that is true already.
    public func countConcurrently() async throws {
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
