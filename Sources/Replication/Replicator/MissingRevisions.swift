import Documents
import Interfaces

/// Documents that are asked for by name, from the beginning, because the pull does not bring them any more:
/// - those that the peer refuses because it holds a revision that is not here. That happens where several machines decide one conflict: what
///   was dropped here as the losing side may be what the peer went on with, and the pull passed it long ago.
/// - those that wait here for a blob which cannot be had. Some peers give a blob only while they give its document; and a document that was
///   purged there, or has expired, is never told of again.
/// - those that were larger than the settings here allowed, and are not larger than those of now. Where there were too many of them to know their names,
///   the remote's changes are read again.
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
        /// Those that were too large.
        var tooLarge: [CollectionName: [DocumentID]] = [:]
        /// Collections whose changes are read again. Documents are not asked for with them: these may have changed before.
        var rereadings: [CollectionName: TooLargeDocuments.Rereading] = [:]
        /// The peer refused some for what is not here: what comes may have to be decided, and pushed.
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
                if event.isHeldAgain { held.note(key) } else if event.error == nil { held.forget(key) }
            }
        }
    }

    /// Takes the documents to request now, by collection.
    mutating func take() -> Wanted {
        var wanted = Wanted(documents: refused.take(Self.batch))
        wanted.held = held.take(Self.batch - wanted.documents.values.reduce(0) { $0 + $1.count })
        wanted.concernsPushes = !wanted.documents.isEmpty
        wanted.tooLarge = Self.take(Self.batch, of: &tooLarge)
        for more in [wanted.held, wanted.tooLarge] { wanted.documents.merge(more) { Array(Set($0 + $1)).sorted() } }
        if wanted.documents.isEmpty { swap(&wanted.rereadings, &rereadings) }
        return wanted
    }
}
