import Documents
import SQLite

extension WriteTransaction {
    func createCollection(_ name: CollectionName) throws(StoreError) -> Collection {
        let existing = try collections()
        if let found = existing.first(where: { $0.name == name }) { return found }
        guard existing.count < StoreLimits.maxCollections else {
            throw .tooManyCollections(limit: StoreLimits.maxCollections)
        }
        let made: Collection
        do {
            made = try Opening.addCollection(session.connection, name)
        } catch {
            throw session.note(error, isWrite: true)
        }
        while state.counters.count <= made.id { state.counters.append(nil) }
        state.counters[made.id] = Counters(lastSequence: 0, documents: 0, deleted: 0)
        return made
    }
}
