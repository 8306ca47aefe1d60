import Documents

/// Revisions of the peer's that were here although it offered or sent them, a few times each: what follows from one must not bring it again and again.
struct SeenRevisions {
    /// If there are more, all are forgotten.
    let limit: Int
    /// How often each of them counts.
    let times: Int
    /// By hashes, which take little memory and are different in each process: nobody can make two revisions count as one.
    private var seen: [Int: Int] = [:]

    init(limit: Int, times: Int = 1) { (self.limit, self.times) = (limit, times) }

    /// Whether it counts once more.
    mutating func insert(_ id: DocumentID, _ version: Version) -> Bool {
        if seen.count >= limit { seen.removeAll(keepingCapacity: true) }
        var hasher = Hasher()
        hasher.combine(id)
        hasher.combine(version)
        let hash = hasher.finalize()
        guard seen[hash, default: 0] < times else { return false }
        seen[hash, default: 0] += 1
        return true
    }
}
