import Documents
import Interfaces

/// Documents that are asked for by name, from the beginning, because the pull does not bring them any more:
/// - those that the peer refuses because it holds a revision that is not here. That happens where several machines decide one conflict: what
///   was dropped here as the losing side may be what the peer went on with, and the pull passed it long ago.
/// - those that wait here for a blob which cannot be had. Some peers give a blob only while they give its document; and a document that was
///   purged there, or has expired, is never told of again.
/// - those that were larger than the settings here allowed, and are not larger than those of now.
struct MissingRevisions {
    /// `missing_revisions`: documents that are remembered; those beyond are found again when they are next offered.
    static let limit = 10_000
    /// Documents that are asked for in one go.
    static let batch = 1_000

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    /// What is to be asked for.
    struct Wanted {
        var documents: [CollectionName: [DocumentID]] = [:]
        /// Those of them that wait here for a blob, and go where the peer does not offer them.
        var held: [CollectionName: [DocumentID]] = [:]
        /// Those of them that were too large.
        var tooLarge: [CollectionName: [DocumentID]] = [:]
        /// The peer refused some for what is not here: what comes may have to be decided, and pushed.
        var concernsPushes = false
    }

    /// How often each was to be had, and was not.
    private struct Tries {
        private var counts: [Key: UInt64] = [:]
        private(set) var due: Set<Key> = []

        mutating func note(_ key: Key) {
            guard counts[key] != nil || counts.count < MissingRevisions.limit else { return }
            let count = counts[key, default: 0] + 1
            counts[key] = count
            // Where it does not help, because the peer shows the document to others only, it is tried ever more seldom.
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

    var isEmpty: Bool { refused.due.isEmpty && held.due.isEmpty && tooLarge.isEmpty }

    mutating func note(tooLarge ids: [DocumentID], in collection: CollectionName) {
        for id in ids { tooLarge.insert(Key(collection: collection, id: id)) }
    }

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

    /// What is to be asked for now, by collection.
    mutating func take() -> Wanted {
        var wanted = Wanted(documents: refused.take(Self.batch))
        wanted.held = held.take(Self.batch - wanted.documents.values.reduce(0) { $0 + $1.count })
        wanted.concernsPushes = !wanted.documents.isEmpty
        wanted.tooLarge = Self.take(Self.batch, of: &tooLarge)
        for more in [wanted.held, wanted.tooLarge] { wanted.documents.merge(more) { Array(Set($0 + $1)).sorted() } }
        return wanted
    }
}
