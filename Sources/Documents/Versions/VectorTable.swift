/// The version vectors of a tree's revisions. Most documents have only a few, for which a linear search is faster than hashing.
struct VectorTable: Sendable, Equatable {
    private static let searched = 8
    private var entries: [(revision: RevisionID, vector: VersionVector)] = []
    /// The index of each, once there are more than ``searched``.
    private var places: [RevisionID: Int] = [:]

    var isEmpty: Bool { entries.isEmpty }
    var values: some Swift.Collection<VersionVector> { entries.lazy.map(\.vector) }

    subscript(revision: RevisionID) -> VersionVector? { place(of: revision).map { entries[$0].vector } }

    mutating func set(_ vector: VersionVector, of revision: RevisionID) {
        if let place = place(of: revision) {
            entries[place].vector = vector
            return
        }
        entries.append((revision, vector))
        if entries.count > Self.searched + 1 {
            places[revision] = entries.count - 1
        } else if entries.count > Self.searched {
            for (place, entry) in entries.enumerated() { places[entry.revision] = place }
        }
    }

    mutating func keep(_ isKept: (RevisionID) -> Bool) {
        guard entries.contains(where: { !isKept($0.revision) }) else { return }
        var kept = VectorTable()
        for entry in entries where isKept(entry.revision) { kept.set(entry.vector, of: entry.revision) }
        self = kept
    }

    /// The revision whose own version this is.
    func revision(of version: VectorVersion) -> RevisionID? { entries.first { $0.vector.current == version }?.revision }

    private func place(of revision: RevisionID) -> Int? {
        entries.count <= Self.searched ? entries.firstIndex { $0.revision == revision } : places[revision]
    }

    static func == (a: VectorTable, b: VectorTable) -> Bool {
        a.entries.count == b.entries.count && a.entries.allSatisfy { b[$0.revision] == $0.vector }
    }
}
