import Documents
import Encodings
import Interfaces
import Synchronization

/// A document that waits although there is a connection: the peer could not accept or send it temporarily, or a policy failed on it.
public struct WaitingDocument: Sendable {
    public var id: DocumentID
    public var collection: CollectionName
    public var direction: Direction
    public var error: ReplicationError
    /// Number of attempts.
    public var tries: Int
    /// The times of the first and the last attempt, in seconds since 1970.
    public var since: Int64
    public var last: Int64
}

/// The waiting documents, and those that arrived and were refused here, collected from reported events.
public final class WaitingDocuments: Sendable {
    /// `waiting_documents`: number of documents remembered; they are representative of any others.
    public static let limit = 1_000

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
        var direction: Direction
    }

    private struct State {
        var documents: [Key: WaitingDocument] = [:]
        /// Documents mentioned since the current connection was made.
        var named: Set<Key> = []
        /// Documents that were received and could not be accepted. Recorded nowhere else.
        var refusedHere: [Key: WaitingDocument] = [:]
    }

    private let state = Mutex(State())
    /// Whether failures of policies are noted as well; not needed if the store has a list of those, which is more complete.
    private let notesPolicies: Bool

    public init(notesPolicies: Bool) {
        self.notesPolicies = notesPolicies
    }

    /// Records what was reported: a document waits if its attempt failed temporarily, and no longer waits once another attempt succeeded or was refused.
    ///
    /// - Parameter now: in seconds since 1970.
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
        // Policy verdicts have a list of their own.
        guard let error = event.error, !error.isTransient, error.domain != .plugin else {
            if !refused.isEmpty { refused[key] = nil }
            return
        }
        guard refused[key] != nil || refused.count < limit else { return }
        let before = refused[key]
        refused[key] = WaitingDocument(
            id: event.id, collection: event.collection, direction: .pull, error: error, tries: (before?.tries ?? 0) + 1, since: before?.since ?? now, last: now)
    }

    /// A new connection begins.
    public func connected() { state.withLock { $0.named = [] } }

    /// Everything was examined on this connection: documents not mentioned on it are no longer waiting.
    public func forgetUnmentioned() {
        state.withLock { state in
            guard !state.documents.isEmpty else { return }
            let named = state.named
            state.documents = state.documents.filter { named.contains($0.key) }
        }
    }

    /// Removes documents that were found not to be waiting any more.
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

    /// A document that the remote sent, that was refused here and that has not arrived since. The same number is remembered as of waiting ones, until
    /// the program ends.
    public func refusedHere(_ collection: CollectionName, _ id: DocumentID) -> WaitingDocument? {
        state.withLock { $0.refusedHere[Key(collection: collection, id: id, direction: .pull)] }
    }

    /// Documents with the same kind of error.
    public struct Group: Sendable {
        public var text: String
        /// The time of the first of them, in seconds since 1970.
        public var since: Int64
        public var count: Int
        /// The obstacle is on this side: the store.
        public var isHere: Bool
        /// The obstacle is a full disk, or a quota.
        public var isOutOfSpace: Bool
        public var example: DocumentID
        /// When the last of them was tried.
        public var last: Int64
    }

    /// A sentence for each kind of error, with the number of documents and one example.
    ///
    /// - Parameter pulled: the verb for incoming documents: a listener, which does not pull, takes them.
    public func summary(pulled: String = "pulled") -> [Group] {
        let documents = all
        let isCapped = documents.count >= Self.limit
        return Dictionary(grouping: documents) { "\($0.direction.rawValue) \($0.error.domain.rawValue)/\($0.error.code)" }
            .sorted { $0.key < $1.key }.compactMap { _, waiting in
                guard let first = waiting.first else { return nil }
                let count = isCapped ? "\(waiting.count) or more documents" : Plural.count(waiting.count, "document")
                let way = first.direction == .push ? "pushed" : pulled
                return Group(
                    text: "\(count) cannot be \(way) at the moment, such as \(first.id): \(first.error)",
                    since: waiting.map(\.since).min() ?? first.since, count: waiting.count, isHere: first.error.domain == .store,
                    isOutOfSpace: first.error.isOutOfSpace, example: first.id, last: waiting.map(\.last).max() ?? first.last)
            }
    }
}
