import Documents

/// Revisions of the peer's that were here although it offered or sent them, once each: what follows from one must not bring it again and again.
struct SeenRevisions {
    /// If there are more, all are forgotten.
    let limit: Int
    /// Hashes, which take little memory and are different in each process: nobody can make two revisions count as one.
    private var seen: Set<Int> = []

    init(limit: Int) { self.limit = limit }

    /// Whether it was not seen before.
    mutating func insert(_ id: DocumentID, _ version: Version) -> Bool {
        if seen.count >= limit { seen.removeAll(keepingCapacity: true) }
        var hasher = Hasher()
        hasher.combine(id)
        hasher.combine(version)
        return seen.insert(hasher.finalize()).inserted
    }
}
