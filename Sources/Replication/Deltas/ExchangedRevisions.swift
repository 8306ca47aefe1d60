import Documents

/// Revisions whose bodies went over this connection, either way: the newest of each document, and of the newest documents only.
///
/// Where a peer may not have everything, these are what it surely has. That it names a revision proves nothing: ids of revisions
/// that were kept from it are in the histories of those that it got.
///
/// Most sessions note many and are asked for none, so a table is made of them when somebody asks.
struct ExchangedRevisions {
    /// Revisions in the order in which they went, and the newest of each document in a table, as far as it was made.
    private struct Part {
        var revisions: [(id: DocumentID, version: Version)] = []
        var table: [DocumentID: Version] = [:]
        var tabled = 0

        mutating func version(of id: DocumentID) -> Version? {
            for revision in revisions[tabled...] { table[revision.id] = revision.version }
            tabled = revisions.count
            return table[id]
        }
    }

    private let limit: Int
    private var newer = Part()
    private var older = Part()

    init(limit: Int) { self.limit = max(1, limit / 2) }

    mutating func add(_ id: DocumentID, _ version: Version) {
        if newer.revisions.count >= limit { (older, newer) = (newer, Part()) }
        newer.revisions.append((id, version))
    }

    mutating func version(of id: DocumentID) -> Version? { newer.version(of: id) ?? older.version(of: id) }

    mutating func holds(_ id: DocumentID, _ version: Version) -> Bool { self.version(of: id) == version }
}
