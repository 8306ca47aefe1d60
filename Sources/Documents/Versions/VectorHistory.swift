/// A version vector as peers send it, with the tree revisions that the document had before it had versions: `V1,V2;V3,3-cc,2-bb`.
public struct VectorHistory: Sendable, Hashable {
    public var vector: VersionVector
    /// Newest first.
    public var revisions: RevisionHistory
    /// The revision's place in another tree, if known.
    public var place: TreePlace?
    /// Its own version does not imply earlier ones of the same author: the sender has not shown that it is the author's next version.
    public private(set) var standsAlone = false

    /// A revision's id with its ancestors, newest first.
    public struct TreePlace: Sendable, Hashable {
        public var revision: RevisionID
        public var history: RevisionHistory

        public init(revision: RevisionID, history: RevisionHistory) { (self.revision, self.history) = (revision, history) }
    }

    public init(_ vector: VersionVector, revisions: RevisionHistory = RevisionHistory()) { (self.vector, self.revisions) = (vector, revisions) }

    /// Checks that peers can accept it. What they refuse is refused on entry: once stored, it would be forwarded in vain forever.
    ///
    /// - Throws: `.timeImpossible`, `.sourceReserved`.
    public func check() throws(VersionError) {
        try Self.check(vector.current)
        for version in vector.merged { try Self.check(version) }
        for version in vector.older { try Self.check(version) }
    }

    private static func check(_ version: VectorVersion) throws(VersionError) {
        guard version.source != .revisionTree else { return }
        guard VectorVersion.times.contains(version.time) else { throw .timeImpossible(value: version.description) }
        guard version.source != .zero else { throw .sourceReserved(value: version.description) }
    }

    /// Whether it covers this version: it contains it, or a later one of the same author.
    func knows(_ version: VectorVersion) -> Bool {
        standsAlone ? vector.others.contains { $0.covers(version) } : vector.knows(version)
    }

    /// Whether it names, by its id, an ancestor for which this version stands.
    func names(standIn version: VectorVersion) -> Bool {
        guard version.source == .revisionTree, !standsAlone else { return false }
        return revisions.contains { version.stands(for: $0) } || place?.history.contains { version.stands(for: $0) } ?? false
    }

    /// The same revision, without its claims about other versions. Ids of ancestors are not claims: they cannot be guessed.
    public var alone: VectorHistory {
        var alone = VectorHistory(vector.bare)
        alone.place = place
        alone.standsAlone = true
        return alone
    }

    /// Without the versions of these sources that were never assigned: nobody can know versions that were never made.
    ///
    /// - Parameter isReal: whether this version of the document was assigned.
    /// - Returns: nil if all of them are real.
    public func withoutFabricated(of sources: [SourceID], isReal: (VectorVersion) -> Bool) -> VectorHistory? {
        func isFabricated(_ version: VectorVersion) -> Bool { sources.contains(version.source) && !isReal(version) }
        let isAlone = isFabricated(vector.current)
        guard isAlone || vector.others.contains(where: isFabricated) else { return nil }
        var real = self
        real.vector = VersionVector(stored: vector.current, merged: vector.merged.filter { !isFabricated($0) }, older: vector.older.filter { !isFabricated($0) })
        real.standsAlone = isAlone
        return real
    }

    /// Whether it names this revision by its id, and not only by a version, which can be guessed.
    public func names(_ revision: RevisionID) -> Bool {
        revisions.contains(revision) || place.map { $0.revision == revision || $0.history.contains(revision) } ?? false
    }

    /// Parses the current version, which may be a whole vector, and the history that a peer sends with it.
    ///
    /// - Parameter history: appended to `revision` with a semicolon, or with a comma if it contains a semicolon itself.
    public init(_ revision: some StringProtocol, history: some StringProtocol) throws(VersionError) {
        var text = String(revision)
        if !history.isEmpty {
            let isDivided = text.utf8.contains(UInt8(ascii: ";")) || history.utf8.contains(UInt8(ascii: ";"))
            text += (isDivided ? "," : ";") + history
        }
        self = try text.withUTF8 { bytes in Result { () throws(VersionError) in try VectorHistory(utf8: bytes) } }.get()
    }

    private init(utf8 text: UnsafeBufferPointer<UInt8>) throws(VersionError) {
        var current: VectorVersion?
        var (merged, older): ([VectorVersion], [VectorVersion]) = ([], [])
        var revisions: [RevisionID] = []
        var isBehind = false
        var count = 0
        var rest = text[...]
        while !rest.isEmpty {
            // Only the first semicolon separates; another one is part of an item, which is then invalid.
            let end = rest.firstIndex { $0 == UInt8(ascii: ",") || !isBehind && $0 == UInt8(ascii: ";") } ?? rest.endIndex
            let item = rest[..<end].drop { $0 == UInt8(ascii: " ") }
            let endsPart = end < rest.endIndex && rest[end] == UInt8(ascii: ";")
            rest = end < rest.endIndex ? rest[(end + 1)...] : rest[end...]
            defer { if endsPart { isBehind = true } }
            if item.isEmpty { continue }
            count += 1
            guard count <= DocumentLimits.vectorVersions else { throw .tooManyVersions(limit: DocumentLimits.vectorVersions) }
            guard item.contains(UInt8(ascii: "@")) else {
                guard current != nil else { throw .malformed(value: quoted(item)) }
                do throws(RevisionIDError) { revisions.append(try RevisionID(String(decoding: item, as: UTF8.self))) } catch { throw .badRevision(error) }
                continue
            }
            let version = try VectorVersion(utf8: item)
            guard revisions.isEmpty else { throw .versionBehindRevision(value: version.description) }
            if current == nil { current = version } else if isBehind { older.append(version) } else { merged.append(version) }
        }
        guard let current else { throw .malformed(value: quoted(text)) }
        vector = try VersionVector(current, merged: merged, older: older)
        self.revisions = RevisionHistory(revisions)
    }

    /// The form sent to a peer after the current version.
    ///
    /// - Parameter authorsOnce: see ``VersionVector/withAuthorsOnce``.
    public func text(authorsOnce: Bool = false) -> String {
        let versions = (authorsOnce ? vector.withAuthorsOnce : vector).history
        let ids = revisions.description
        if versions.isEmpty { return ids }
        return ids.isEmpty ? versions : versions + "," + ids
    }
}
