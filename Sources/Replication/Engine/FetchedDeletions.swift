import Documents

/// Documents whose deletion the peer has asked for on this connection. What it makes of such a name without an ancestor it may have made before it
/// heard of the deletion: it would keep one of the two, and hear no more of what is current here.
///
/// Each counts once. A peer that has forgotten the deletion since may begin anew when it tries again.
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
