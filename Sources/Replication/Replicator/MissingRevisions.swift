import Documents
import Interfaces

/// Documents that the peer refuses because it holds a revision that is not here and that the pull does not bring any more.
///
/// That happens where several machines decide one conflict: what was dropped here as the losing side may be what the peer went on
/// with, and the pull passed it long ago. So these documents are asked for by name, from the beginning.
struct MissingRevisions {
    /// `missing_revisions`: documents that are remembered; those beyond are found again when they are next offered.
    static let limit = 10_000
    /// Documents that are asked for in one go.
    static let batch = 1_000

    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    /// How often the peer refused each.
    private var refusals: [Key: UInt64] = [:]
    private var due: Set<Key> = []

    var isEmpty: Bool { due.isEmpty }

    /// Looks at what happened to documents.
    mutating func note(_ events: [DocumentEvent]) {
        for event in events where event.direction == .push {
            let key = Key(collection: event.collection, id: event.id)
            guard let error = event.error, error.domain == .http, error.code == 409 else {
                if !refusals.isEmpty { refusals[key] = nil }
                continue
            }
            guard refusals[key] != nil || refusals.count < Self.limit else { continue }
            let count = refusals[key, default: 0] + 1
            refusals[key] = count
            // Where it does not help, because the peer shows the document to others only, it is tried ever more seldom.
            if count.nonzeroBitCount == 1 { due.insert(key) }
        }
    }

    /// What is to be asked for now, by collection.
    mutating func take() -> [CollectionName: [DocumentID]] {
        let keys = due.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }.prefix(Self.batch)
        due.subtract(keys)
        return Dictionary(grouping: keys, by: \.collection).mapValues { $0.map(\.id) }
    }
}
