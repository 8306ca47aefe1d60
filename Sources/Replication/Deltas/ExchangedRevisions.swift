import Documents

/// Revisions whose bodies were transferred on this connection, in either direction: the newest of each document, and only for the most recent
/// documents.
///
/// If a peer may not have everything, these are the ones it certainly has. That it names a revision proves nothing: ids of revisions kept from it are
/// in the histories of those it received.
///
/// Most sessions record many and query none, so the table is built on the first query.
struct ExchangedRevisions {
    /// Revisions in order of transfer, and a table of the newest of each document, as far as it has been built.
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
