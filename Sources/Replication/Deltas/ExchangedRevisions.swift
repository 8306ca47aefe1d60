import Documents

/// Revisions whose bodies went over this connection, either way: the newest of each document, and of the newest documents only.
///
/// Where a peer may not have everything, these are what it surely has. That it names a revision proves nothing: ids of revisions
/// that were kept from it are in the histories of those that it got.
struct ExchangedRevisions {
    private let limit: Int
    private var newer: [DocumentID: Version] = [:]
    private var older: [DocumentID: Version] = [:]

    init(limit: Int) { self.limit = max(1, limit / 2) }

    mutating func add(_ id: DocumentID, _ version: Version) {
        guard newer.updateValue(version, forKey: id) == nil, newer.count > limit else { return }
        swap(&older, &newer)
        newer.removeAll(keepingCapacity: true)
    }

    func holds(_ id: DocumentID, _ version: Version) -> Bool { (newer[id] ?? older[id]) == version }
}
