import Environment
import Synchronization

/// Something that keeps the file of a blob open for a peer.
protocol BlobUser: AnyObject, Sendable {
    /// Closes the file: others need the descriptor, and nothing was read or written for a while. Later calls fail.
    func yieldResources()
}

/// Limits how many blob files may be open for peers at once, over all databases that share this, so that blobs cannot exhaust the file descriptors
/// that everything else needs. It is up to a peer how many blobs it begins, and whether it ever ends them.
public final class OpenBlobs: Sendable {
    private struct Entry {
        /// Monotonic time in nanoseconds.
        var lastUse: UInt64
        weak var user: (any BlobUser)?
    }

    private struct State {
        var limit: Int
        var entries: [Int: Entry] = [:]
        var last = 0
    }

    /// After this long without a byte read or written, a blob gives way to another one.
    static let patience: UInt64 = 5_000_000_000

    private let state: Mutex<State>

    public init(_ limit: Int = .max) { state = Mutex(State(limit: limit)) }

    /// `open_blobs`. Lowering it does not close anything.
    public var limit: Int {
        get { state.withLock { $0.limit } }
        set { state.withLock { $0.limit = newValue } }
    }

    /// Number of files currently open.
    public var count: Int { state.withLock { $0.entries.count } }

    /// Takes a place for another file.
    ///
    /// - Throws: `StoreError.tooManyOpenBlobs` if all places are taken by blobs that are making progress.
    func take(at now: UInt64) throws(StoreError) -> Place {
        let (number, idle, limit) = state.withLock { state -> (Int?, (any BlobUser)?, Int) in
            var idle: (any BlobUser)?
            if state.entries.count >= state.limit {
                // The table is large only if the system allows many descriptors, and then it does not fill up.
                let oldest = state.entries.min { ($0.value.lastUse, $0.key) < ($1.value.lastUse, $1.key) }
                guard let oldest, now > oldest.value.lastUse, now - oldest.value.lastUse > Self.patience else { return (nil, nil, state.limit) }
                idle = oldest.value.user
                state.entries[oldest.key] = nil
            }
            state.last += 1
            state.entries[state.last] = Entry(lastUse: now)
            return (state.last, idle, state.limit)
        }
        guard let number else { throw .tooManyOpenBlobs(limit: limit) }
        idle?.yieldResources()
        return Place(self, number)
    }

    private func change(_ number: Int, _ body: (inout Entry) -> Void) {
        state.withLock { state in
            if var entry = state.entries[number] {
                body(&entry)
                state.entries[number] = entry
            }
        }
    }

    private func relinquish(_ number: Int) { state.withLock { _ = $0.entries.removeValue(forKey: number) } }

    /// Returned when the last reference to it goes.
    final class Place: Sendable {
        private let all: OpenBlobs
        private let number: Int

        fileprivate init(_ all: OpenBlobs, _ number: Int) { (self.all, self.number) = (all, number) }

        deinit { all.relinquish(number) }

        var limit: Int { all.limit }

        func belongs(to user: any BlobUser) { all.change(number) { $0.user = user } }

        /// Something was read or written.
        func used(at now: UInt64) { all.change(number) { $0.lastUse = now } }
    }
}
