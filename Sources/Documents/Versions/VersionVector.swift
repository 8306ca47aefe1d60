/// What a revision knows of: the version that it is, and for each other author the newest version that went into it. Two revisions
/// compare by it: one that knows the other's version descends from it.
///
/// Its text is `CURRENT,MERGED,…;OLDER,…`: versions that were merged into it stand before the semicolon (replication.md section 7).
public struct VersionVector: Hashable, Sendable, CustomStringConvertible {
    public private(set) var current: VectorVersion
    /// Versions in conflict of which it was made, or that it stands for since.
    public private(set) var merged: [VectorVersion] = []
    /// The newest of other authors, latest first.
    public private(set) var older: [VectorVersion] = []

    public init(_ current: VectorVersion) { self.current = current }

    /// Of a peer's.
    ///
    /// - Throws: `.contradictory`.
    init(_ current: VectorVersion, merged: [VectorVersion], older: [VectorVersion]) throws(VersionError) {
        if merged.contains(where: { $0.isLater(than: current) }) || older.contains(where: { $0.isLater(than: current) }) {
            throw .contradictory(value: current.description)
        }
        self.init(stored: current, merged: merged, older: older)
    }

    /// Of our own database's.
    init(stored current: VectorVersion, merged: [VectorVersion], older: [VectorVersion]) {
        self.current = current
        if !merged.isEmpty || !older.isEmpty { take(merged: merged, older: older) }
    }

    /// How many versions are kept of one document, beside the current one. The oldest go: whoever still has one of them as the current
    /// version is taken for a side of a conflict, and nothing is lost.
    public static let keptVersions = 64

    // MARK: Comparing

    /// It has this version of the author, or a later one.
    public func knows(_ version: VectorVersion) -> Bool {
        current.covers(version) || merged.contains { $0.covers(version) } || older.contains { $0.covers(version) }
    }

    /// It has each version of the other one, or a later one of the same author.
    public func knows(all other: VersionVector) -> Bool {
        knows(other.current) && other.merged.allSatisfy { knows($0) } && other.older.allSatisfy { knows($0) }
    }

    public enum Relation: Sendable { case same, older, newer, conflicting }

    /// How it stands to another one of the same document.
    public func relation(to other: VersionVector) -> Relation {
        if current == other.current { return .same }
        switch (other.knows(current), knows(other.current)) {
        case (true, false): return .older
        case (false, true): return .newer
        case (false, false): return .conflicting
        // Each was taken into the other: both stand for the same.
        case (true, true): return current < other.current ? .older : .newer
        }
    }

    /// Of all its versions, but for those that stand for revisions of trees; nil where there is no other.
    public var latestTime: UInt64? {
        var latest: UInt64?
        forEachVersion { if $0.source != .revisionTree { latest = max(latest ?? 0, $0.time) } }
        return latest
    }

    // MARK: Making

    /// The vector of an edit on top of this one.
    public func edited(_ version: VectorVersion) -> VersionVector {
        var vector = VersionVector(version)
        vector.take(merged: [], older: merged + older + [current])
        return vector
    }

    /// The vector of a revision that was made of two in conflict.
    public static func merge(_ version: VectorVersion, _ sides: [VersionVector]) -> VersionVector {
        var vector = VersionVector(version)
        vector.take(merged: sides.map(\.current), older: sides.flatMap { $0.merged + $0.older })
        return vector
    }

    /// The same version, which stands for another one from now on that lost against it. What that one knew of the same author's later
    /// versions has no place in it: see ``standsFor(_:)``.
    public mutating func absorb(_ other: VersionVector) {
        take(merged: merged + [other.current], older: older + other.merged + other.older)
    }

    /// Also has these versions behind it.
    public mutating func take(older versions: [VectorVersion]) { take(merged: merged, older: older + versions) }

    /// Whether it can stand for the other one, or a new version has to: where one author made both sides, the later one knows the earlier.
    public func standsFor(_ other: VersionVector) -> Bool { !([other.current] + other.others).contains { $0.isLater(than: current) } }

    /// Without all but the version itself.
    public var bare: VersionVector { VersionVector(current) }

    /// The newest of each author, once, and not of the current version's.
    private mutating func take(merged new: [VectorVersion], older old: [VectorVersion]) {
        let (new, old) = (new.filter { !$0.isLater(than: current) }, old.filter { !$0.isLater(than: current) })
        merged = Self.newest(new, without: [current], limit: Self.keptVersions)
        older = Self.newest(old, without: [current] + merged, limit: Self.keptVersions - merged.count)
    }

    /// Latest first, `limit` at most; those that `known` knows already are left out.
    private static func newest(_ versions: [VectorVersion], without known: [VectorVersion], limit: Int) -> [VectorVersion] {
        var kept: [VectorVersion] = []
        for version in versions.sorted(by: >) {
            if kept.count >= limit { break }
            if known.contains(where: { $0.covers(version) }) || kept.contains(where: { $0.covers(version) }) { continue }
            kept.append(version)
        }
        return kept
    }

    // MARK: Text

    /// As peers take it that allow each author once behind the current version: the latest version of each is left, and of what stands for revisions
    /// of trees the greatest.
    public var withAuthorsOnce: VersionVector {
        let all = others
        guard all.count > 1 else { return self }
        func isOnly(_ version: VectorVersion) -> Bool { !all.contains { $0.source == version.source && $0 > version } }
        var vector = self
        vector.merged.removeAll { !isOnly($0) }
        vector.older.removeAll { !isOnly($0) }
        return vector
    }

    /// What stands behind the current version; empty if there is nothing.
    public var history: String {
        let behind = older.map(\.description).joined(separator: ",")
        return merged.isEmpty ? behind : merged.map(\.description).joined(separator: ",") + ";" + behind
    }

    public var description: String {
        let history = history
        if history.isEmpty { return current.description }
        return current.description + (merged.isEmpty ? ";" : ",") + history
    }

    /// The current version, then the others.
    @inline(__always)
    func forEachVersion(_ body: (VectorVersion) -> Void) {
        body(current)
        for version in merged { body(version) }
        for version in older { body(version) }
    }

    /// All versions but the current one.
    public var others: [VectorVersion] { merged + older }
}
