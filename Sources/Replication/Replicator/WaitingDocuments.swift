import Documents
import Encodings
import Interfaces
import Synchronization

/// A document that waits although the connection is up: the peer could not take or give it for the moment, or a policy failed on it.
public struct WaitingDocument: Sendable {
    public var id: DocumentID
    public var collection: CollectionName
    public var direction: Direction
    public var error: ReplicationError
    /// How often it was tried.
    public var tries: Int
    /// When it was tried first and last (seconds since 1970).
    public var since: Int64
    public var last: Int64
}

/// The documents that wait, and those that came and were refused here, noted from what is reported of them.
public final class WaitingDocuments: Sendable {
    /// `waiting_documents`: as many are remembered; they stand for the others.
    public static let limit = 1_000

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
        var direction: Direction
    }

    private struct State {
        var documents: [Key: WaitingDocument] = [:]
        /// Those that were named since the present connection was made.
        var named: Set<Key> = []
        /// They were given and could not be taken. Nothing else knows of them.
        var refusedHere: [Key: WaitingDocument] = [:]
    }

    private let state = Mutex(State())
    /// Whether failures of policies are noted as well; where the store has a list of those, it says more.
    private let notesPolicies: Bool

    public init(notesPolicies: Bool) {
        self.notesPolicies = notesPolicies
    }

    public func note(_ events: [DocumentEvent], at now: Int64) {
        state.withLock { state in
            for event in events {
                let key = Key(collection: event.collection, id: event.id, direction: event.direction)
                if event.direction == .pull, !event.isAccessRemoved { Self.note(event, key, at: now, &state.refusedHere) }
                guard let error = event.error, error.isTransient || notesPolicies && error.domain == .plugin else {
                    if !state.documents.isEmpty { state.documents[key] = nil }
                    continue
                }
                if state.documents[key] == nil, state.documents.count >= Self.limit { continue }
                var document = state.documents[key] ?? WaitingDocument(
                    id: event.id, collection: event.collection, direction: event.direction, error: error, tries: 0, since: now, last: now)
                (document.error, document.last, document.tries) = (error, now, document.tries + 1)
                state.documents[key] = document
                state.named.insert(key)
            }
        }
    }

    private static func note(_ event: DocumentEvent, _ key: Key, at now: Int64, _ refused: inout [Key: WaitingDocument]) {
        // What a policy said has a list of its own.
        guard let error = event.error, !error.isTransient, error.domain != .plugin else {
            if !refused.isEmpty { refused[key] = nil }
            return
        }
        guard refused[key] != nil || refused.count < limit else { return }
        let before = refused[key]
        refused[key] = WaitingDocument(
            id: event.id, collection: event.collection, direction: .pull, error: error, tries: (before?.tries ?? 0) + 1, since: before?.since ?? now, last: now)
    }

    /// Another connection begins.
    public func connected() { state.withLock { $0.named = [] } }

    /// Everything was looked at on this connection: what was not named on it does not wait any more.
    public func forgetUnmentioned() {
        state.withLock { state in
            guard !state.documents.isEmpty else { return }
            let named = state.named
            state.documents = state.documents.filter { named.contains($0.key) }
        }
    }

    /// Takes out what somebody found not to wait any more.
    public func forget(where isOver: (WaitingDocument) -> Bool) {
        state.withLock { state in state.documents = state.documents.filter { !isOver($0.value) } }
    }

    public var isEmpty: Bool { state.withLock { $0.documents.isEmpty } }

    /// In order.
    public var all: [WaitingDocument] {
        state.withLock { Array($0.documents.values) }.sorted { ($0.collection, $0.id, $0.direction.rawValue) < ($1.collection, $1.id, $1.direction.rawValue) }
    }

    public func find(_ collection: CollectionName, _ id: DocumentID, _ direction: Direction) -> WaitingDocument? {
        state.withLock { $0.documents[Key(collection: collection, id: id, direction: direction)] }
    }

    /// What the remote gave and was refused here, and did not come since. As many are remembered as of those that wait, until the program ends.
    public func refusedHere(_ collection: CollectionName, _ id: DocumentID) -> WaitingDocument? {
        state.withLock { $0.refusedHere[Key(collection: collection, id: id, direction: .pull)] }
    }

    /// Documents of one kind of error.
    public struct Group: Sendable {
        public var text: String
        /// The first of them (seconds since 1970).
        public var since: Int64
        public var count: Int
        /// What is in the way is on this side: the store.
        public var isHere: Bool
        /// It is a full disk, or a quota.
        public var isNoRoom: Bool
        public var example: DocumentID
        /// When the last of them was tried.
        public var last: Int64
    }

    /// A sentence for each kind of error, with how many documents it concerns and one of them.
    ///
    /// - Parameter pulled: what is not done with those that come: a listener, which does not pull, takes them.
    public func summary(pulled: String = "pulled") -> [Group] {
        let documents = all
        let isCapped = documents.count >= Self.limit
        return Dictionary(grouping: documents) { "\($0.direction.rawValue) \($0.error.domain.rawValue)/\($0.error.code)" }
            .sorted { $0.key < $1.key }.compactMap { _, waiting in
                guard let first = waiting.first else { return nil }
                let count = isCapped ? "\(waiting.count) or more documents" : Plural.count(waiting.count, "document")
                let way = first.direction == .push ? "pushed" : pulled
                return Group(
                    text: "\(count) cannot be \(way) for the moment, such as \(first.id): \(first.error)",
                    since: waiting.map(\.since).min() ?? first.since, count: waiting.count, isHere: first.error.domain == .store,
                    isNoRoom: first.error.isNoRoom, example: first.id, last: waiting.map(\.last).max() ?? first.last)
            }
    }
}
