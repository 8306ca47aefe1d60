import Documents

/// Documents whose deletion the peer has requested on this connection. If it creates a document with such an id and no ancestor, it may have done so
/// before it learned of the deletion: it would then keep one of the two, and hear no more of what is current here.
///
/// Each counts once. A peer that has forgotten the deletion since then may create the document when it retries.
struct FetchedDeletions {
    let limit: Int
    private var ids: Set<DocumentID> = []

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID) {
        if ids.count >= limit { ids.removeAll(keepingCapacity: true) }
        ids.insert(id)
    }

    mutating func take(_ id: DocumentID) -> Bool { !ids.isEmpty && ids.remove(id) != nil }
}
