/// What a revision covers: its own version, and for each other author the newest version that went into it. Revisions are compared by it: if one
/// vector covers the version of another revision, its revision descends from that one.
///
/// Its text is `CURRENT,MERGED,…;OLDER,…`: versions that were merged into it precede the semicolon (replication.md section 7).
public struct VersionVector: Hashable, Sendable, CustomStringConvertible {
    public private(set) var current: VectorVersion
    /// Conflicting versions from which it was merged, or that it stands for since a decision.
    public private(set) var merged: [VectorVersion] = []
    /// The newest versions of other authors, latest first.
    public private(set) var older: [VectorVersion] = []

    public init(_ current: VectorVersion) { self.current = current }

    /// Creates a peer's vector.
    ///
    /// - Throws: `.contradictory`.
    init(_ current: VectorVersion, merged: [VectorVersion], older: [VectorVersion]) throws(VersionError) {
        if merged.contains(where: { $0.isLater(than: current) }) || older.contains(where: { $0.isLater(than: current) }) {
            throw .contradictory(value: current.description)
        }
        self.init(stored: current, merged: merged, older: older)
    }

    /// Creates a vector from our own database.
    init(stored current: VectorVersion, merged: [VectorVersion], older: [VectorVersion]) {
        self.current = current
        if !merged.isEmpty || !older.isEmpty { take(merged: merged, older: older) }
    }

    /// How many versions of one document are kept besides the current one. The oldest are dropped: a peer that still has one of them as its current
    /// version is then treated as a side of a conflict, and nothing is lost.
    public static let keptVersions = 64

    // MARK: Comparing

    /// Whether it contains this version, or a later one of the same author.
    public func knows(_ version: VectorVersion) -> Bool {
        current.covers(version) || merged.contains { $0.covers(version) } || older.contains { $0.covers(version) }
    }

    /// Whether it contains every version of the other vector, or a later one of the same author.
    public func knows(all other: VersionVector) -> Bool {
        knows(other.current) && other.merged.allSatisfy { knows($0) } && other.older.allSatisfy { knows($0) }
    }

    public enum Relation: Sendable { case same, older, newer, conflicting }

    /// How it relates to another vector of the same document.
    public func relation(to other: VersionVector) -> Relation {
        if current == other.current { return .same }
        switch (other.knows(current), knows(other.current)) {
        case (true, false): return .older
        case (false, true): return .newer
        case (false, false): return .conflicting
        case (true, true): return isLater(thanCrossed: other) ? .newer : .older
        }
    }

    /// Of two vectors of which each knows the other's current version, the one that counts: machines decided the same conflict differently, each keeping
    /// one side's version and merging the other's into it. It is the one that knows more, or else the one with the greater current version, so that
    /// everybody comes to the same one.
    public func isLater(thanCrossed other: VersionVector) -> Bool {
        let (isAbove, isBelow) = (knows(all: other), other.knows(all: self))
        return isAbove == isBelow ? current > other.current : isAbove
    }

    /// The latest time of all its versions, ignoring those that stand for tree revisions; nil if there is no other.
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

    /// The vector of a revision that was merged from conflicting ones.
    public static func merge(_ version: VectorVersion, _ sides: [VersionVector]) -> VersionVector {
        var vector = VersionVector(version)
        vector.take(merged: sides.map(\.current), older: sides.flatMap { $0.merged + $0.older })
        return vector
    }

    /// Makes the same version stand for another one that lost against it. Later versions of the same author in the other vector are left out: see
    /// ``standsFor(_:)``.
    public mutating func absorb(_ other: VersionVector) {
        take(merged: merged + [other.current], older: older + other.merged + other.older)
    }

    /// Adds these versions as older ones.
    public mutating func take(older versions: [VectorVersion]) { take(merged: merged, older: older + versions) }

    /// Whether it can stand for the other one; if not, a new version is needed, because one author made both sides and the other contains a later
    /// version.
    public func standsFor(_ other: VersionVector) -> Bool { !([other.current] + other.others).contains { $0.isLater(than: current) } }

    /// Only the version itself.
    public var bare: VersionVector { VersionVector(current) }

    /// Keeps only the newest version of each author, and none of the current version's author.
    private mutating func take(merged new: [VectorVersion], older old: [VectorVersion]) {
        let (new, old) = (new.filter { !$0.isLater(than: current) }, old.filter { !$0.isLater(than: current) })
        merged = Self.newest(new, without: [current], limit: Self.keptVersions)
        older = Self.newest(old, without: [current] + merged, limit: Self.keptVersions - merged.count)
    }

    /// Latest first, at most `limit`; those already covered by `known` are left out.
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

    /// The form for peers that allow each author only once after the current version: keeps the latest version of each, and the greatest of those
    /// that stand for tree revisions.
    public var withAuthorsOnce: VersionVector {
        let all = others
        guard all.count > 1 else { return self }
        func isOnly(_ version: VectorVersion) -> Bool { !all.contains { $0.source == version.source && $0 > version } }
        var vector = self
        vector.merged.removeAll { !isOnly($0) }
        vector.older.removeAll { !isOnly($0) }
        return vector
    }

    /// The text after the current version; empty if there is none.
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
