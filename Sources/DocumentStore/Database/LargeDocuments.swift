import Documents
import Synchronization

/// Documents stored since the database was opened that exceed a size limit: they are stored nevertheless, and listed here until they become smaller,
/// or are deleted or purged.
public final class LargeDocuments: Sendable {
    public struct Entry: Sendable, Equatable {
        public var collection: CollectionName
        public var id: DocumentID
        public var bytes: Int
        /// When it became this large, in seconds since 1970.
        public var since: Int64
    }

    /// The size of a document's current body after a transaction; 0 bytes if it is deleted or gone.
    struct Size {
        var collection: CollectionName
        var id: DocumentID
        var bytes: Int
    }

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    private struct State {
        var known: [Key: Entry] = [:]
        var hasMore = false
        var stored: UInt64 = 0
    }

    private let bound: Atomic<Int>
    private let isAny = Atomic(false)
    private let state = Mutex(State())

    /// - Parameter limit: size in bytes above which a body is large.
    public init(above limit: Int = .max) { bound = Atomic(limit) }

    /// Size in bytes above which a body is large. Documents stored earlier, under a higher limit, are not known.
    public var limit: Int {
        get { bound.load(ordering: .relaxed) }
        set {
            bound.store(newValue, ordering: .relaxed)
            state.withLock { state in
                state.known = state.known.filter { $0.value.bytes > newValue }
                state.hasMore = false
                isAny.store(!state.known.isEmpty, ordering: .relaxed)
            }
        }
    }

    /// How often a large document was stored.
    public var stored: UInt64 { state.withLock { $0.stored } }
    /// Largest first.
    public var entries: [Entry] {
        state.withLock { state in
            state.known.values.sorted { ($1.bytes, $0.collection, $0.id) < ($0.bytes, $1.collection, $1.id) }
        }
    }
    /// Whether there are more than the ``StoreLimits/largeDocuments`` that are remembered, all of them smaller than those.
    public var hasMore: Bool { state.withLock { $0.hasMore } }

    /// Whether a body of that size has to be recorded.
    @inline(__always)
    func concerns(_ bytes: Int) -> Bool { bytes > limit || isAny.load(ordering: .relaxed) }

    /// A transaction has become durable.
    ///
    /// - Returns: those of its documents that are large now.
    func note(_ sizes: [Size], now: Int64) -> [Entry] {
        guard !sizes.isEmpty else { return [] }
        let limit = limit
        return state.withLock { state in
            var large: [Entry] = []
            for size in sizes {
                let key = Key(collection: size.collection, id: size.id)
                guard size.bytes > limit else {
                    state.known[key] = nil
                    continue
                }
                state.stored += 1
                let entry = Entry(collection: size.collection, id: size.id, bytes: size.bytes, since: state.known[key]?.since ?? now)
                large.append(entry)
                state.known[key] = entry
                guard state.known.count > StoreLimits.largeDocuments, let least = state.known.min(by: { $0.value.bytes < $1.value.bytes }) else { continue }
                state.known[least.key] = nil
                state.hasMore = true
            }
            isAny.store(!state.known.isEmpty, ordering: .relaxed)
            return large
        }
    }
}
