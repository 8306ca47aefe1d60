import Documents
import Interfaces

/// Documents that are requested by id, from the beginning, because the pull no longer brings them:
/// - those that the peer refuses because it holds a revision that is not here. This happens if several machines decide the same conflict: the side that
///   lost here may be the one that the peer continued, and the pull passed it long ago.
/// - those that wait here for a blob that cannot be obtained. Some peers serve a blob only as long as they serve its document; and a document that was
///   purged or has expired there is never announced again.
/// - those that were larger than earlier limits here, and are within the current ones. If there were too many to record their ids, the remote's changes
///   are read again.
struct MissingRevisions {
    /// `missing_revisions`: number of documents remembered; any others are noticed again when they are next offered.
    static let limit = 10_000
    /// Documents requested in one go.
    static let batch = 1_000

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    /// The documents to request.
    struct Wanted {
        var documents: [CollectionName: [DocumentID]] = [:]
        /// Those that wait here for a blob; they are dropped if the peer does not offer them.
        var held: [CollectionName: [DocumentID]] = [:]
        /// Those of them whose blob the peer refused with 403: it does not have such a document, or does not let us see it. If its filter failed on the
        /// document, a Nightjar answers 503 instead.
        var hidden: [CollectionName: Set<DocumentID>] = [:]
        /// Those that were too large.
        var tooLarge: [CollectionName: [DocumentID]] = [:]
        /// Collections whose changes are read again. No documents are requested by id at the same time: they may have changed before that point.
        var rereadings: [CollectionName: TooLargeDocuments.Rereading] = [:]
        /// The peer refused some because of a revision that is not here: what is received may have to be decided, and pushed.
        var concernsPushes = false

        var isEmpty: Bool { documents.isEmpty && rereadings.isEmpty }
    }

    /// How often each document was requested in vain.
    private struct Tries {
        private var counts: [Key: UInt64] = [:]
        private(set) var due: Set<Key> = []

        mutating func note(_ key: Key) {
            guard counts[key] != nil || counts.count < MissingRevisions.limit else { return }
            let count = counts[key, default: 0] + 1
            counts[key] = count
            // If it does not help, because the peer shows the document only to others, it is tried at growing intervals.
            if count.nonzeroBitCount == 1 { due.insert(key) }
        }

        mutating func forget(_ key: Key) { if !counts.isEmpty { counts[key] = nil } }

        mutating func take(_ most: Int) -> [CollectionName: [DocumentID]] { MissingRevisions.take(most, of: &due) }
    }

    private static func take(_ most: Int, of due: inout Set<Key>) -> [CollectionName: [DocumentID]] {
        let keys = due.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }.prefix(most)
        due.subtract(keys)
        return Dictionary(grouping: keys, by: \.collection).mapValues { $0.map(\.id) }
    }

    private var refused = Tries()
    private var held = Tries()
    private var tooLarge: Set<Key> = []
    /// Those of the held ones whose blob was last refused with 403.
    private var hidden: Set<Key> = []

    private var rereadings: [CollectionName: TooLargeDocuments.Rereading] = [:]

    var isEmpty: Bool { refused.due.isEmpty && held.due.isEmpty && tooLarge.isEmpty && rereadings.isEmpty }

    mutating func note(tooLarge ids: [DocumentID], in collection: CollectionName) {
        for id in ids { tooLarge.insert(Key(collection: collection, id: id)) }
    }

    mutating func note(_ rereading: TooLargeDocuments.Rereading, of collection: CollectionName) { rereadings[collection] = rereading }

    /// Looks at what happened to documents.
    mutating func note(_ events: [DocumentEvent]) {
        for event in events {
            let key = Key(collection: event.collection, id: event.id)
            switch event.direction {
            case .push:
                if let error = event.error, error.domain == .http, error.code == 409 { refused.note(key) } else { refused.forget(key) }
            case .pull:
                if event.isHeldAgain {
                    held.note(key)
                    let isHidden = event.error?.domain == .http && event.error?.code == 403
                    if !isHidden { hidden.remove(key) } else if hidden.count < Self.limit { hidden.insert(key) }
                } else if event.error == nil {
                    held.forget(key)
                    hidden.remove(key)
                }
            }
        }
    }

    /// What came of a request is unknown: it counts as not made, so that the next time that these documents are noticed they are requested at once.
    mutating func forgetRequest(_ wanted: Wanted) {
        for (collection, ids) in wanted.documents {
            for id in ids {
                refused.forget(Key(collection: collection, id: id))
                held.forget(Key(collection: collection, id: id))
            }
        }
    }

    /// Takes the documents to request next, by collection.
    mutating func take() -> Wanted {
        var wanted = Wanted(documents: refused.take(Self.batch))
        wanted.held = held.take(Self.batch - wanted.documents.values.reduce(0) { $0 + $1.count })
        // Noted again each time that a blob is refused.
        for (collection, ids) in wanted.held { wanted.hidden[collection] = Set(ids.filter { hidden.remove(Key(collection: collection, id: $0)) != nil }) }
        wanted.concernsPushes = !wanted.documents.isEmpty
        wanted.tooLarge = Self.take(Self.batch, of: &tooLarge)
        for more in [wanted.held, wanted.tooLarge] { wanted.documents.merge(more) { Array(Set($0 + $1)).sorted() } }
        if wanted.documents.isEmpty { swap(&wanted.rereadings, &rereadings) }
        return wanted
    }
}
