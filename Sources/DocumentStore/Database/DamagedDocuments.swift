import Documents
import Synchronization

/// A document that cannot be read: it is left out of feeds and lists until it is saved, deleted or purged.
public struct DamagedDocument: Sendable, Equatable {
    public var collection: CollectionName
    public var id: DocumentID
    /// What is wrong with it.
    public var detail: String
}

/// The damaged documents that readers and the writer of a database have met. Not stored: whoever meets one again notes it again.
final class DamagedDocuments: Sendable {
    private struct Key: Hashable {
        var collection: CollectionName
        var id: DocumentID
    }

    private let met = Mutex<[Key: String]>([:])

    /// Beyond `StoreLimits.damagedDocuments` no further ones are noted.
    func note(_ collection: CollectionName, _ id: DocumentID, _ detail: String) {
        met.withLock { met in
            let key = Key(collection: collection, id: id)
            if met[key] != nil || met.count < StoreLimits.damagedDocuments { met[key] = detail }
        }
    }

    func forget(_ collection: CollectionName, _ id: DocumentID) {
        met.withLock { met in
            if !met.isEmpty { met[Key(collection: collection, id: id)] = nil }
        }
    }

    /// In the order of collections and ids.
    var all: [DamagedDocument] {
        met.withLock { $0.map { DamagedDocument(collection: $0.key.collection, id: $0.key.id, detail: $0.value) } }
            .sorted { ($0.collection.description, $0.id) < ($1.collection.description, $1.id) }
    }
}
