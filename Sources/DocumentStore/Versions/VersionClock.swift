import Documents
import Encodings
import SQLite

/// The writer's clock, which assigns versions to local edits: a hybrid logical clock, which follows the machine's clock and, under one source id,
/// never goes back, not even over restarts (replication.md section 7).
///
/// If a machine's clock was ahead for a while and is then corrected, this clock remains ahead. In that case its source id is abandoned, and with it
/// the times assigned under it: from the next edit on, the database uses a new source id and the machine's time. That edit still counts as newer than
/// what it replaces, since vectors are compared per source and it includes the old source's version. Peers that refuse versions from the future, as
/// Couchbase Lite 4 does, accept later edits, except of documents that have a version with the old source id: those wait for its time.
///
/// If a machine's clock has not been set, it is unknown how far ahead this one is, so it continues unchanged: see `earliestSeconds`.
struct VersionClock {
    /// Nil until it is read, and after a job that may have set it was rolled back.
    fileprivate(set) var source: SourceID?
    /// Source ids that were abandoned, because somebody else made versions with them or the machine's clock had been ahead: what was made here under
    /// one of them is still known.
    fileprivate(set) var givenUp: [SourceID] = []
    /// The last time that was assigned, or seen elsewhere.
    fileprivate var last: UInt64 = 0
    /// Times up to this one are not assigned again after a restart. Stored with the first version that needs it.
    fileprivate var reserved: UInt64 = 0

    /// How far a stored reservation is ahead of the versions, in nanoseconds: this limits its writes to one per second.
    static let reservation: UInt64 = 1_000_000_000

    /// Its stored state was rolled back.
    mutating func forgetWritten() { (source, givenUp, reserved) = (nil, [], 0) }

    /// `given_up_sources`: number of abandoned source ids that are remembered.
    fileprivate static let givenUpSources = 16

    /// Whether the machine's clock is set and the assigned times are further ahead of it than peers accept. The reservation beyond them does not
    /// count.
    fileprivate func isAhead(of now: UInt64) -> Bool {
        now >= StoreLimits.earliestNanoseconds && StoreLimits.isAhead(last, of: now + Self.reservation)
    }
}

extension WriteTransaction {
    /// A version for a local edit.
    func nextVersion() throws(StoreError) -> VectorVersion {
        var source = try versionSource()
        let now = UInt64(clamping: state.wallNanoseconds)
        if state.clock.isAhead(of: now) { source = try switchSource() }
        // A machine without a clock starts in 1970, and peers would accept none of its versions.
        let time = max(now, state.clock.last + 1, VectorVersion.times.lowerBound)
        state.clock.last = time
        if time > state.clock.reserved {
            state.clock.reserved = time + VersionClock.reservation
            try setProperty(VersionProperty.reserved, String(state.clock.reserved, radix: 16))
            state.versions.note(through: state.clock.reserved)
        }
        return VectorVersion(time: time, source: source)
    }

    /// The version of an edit or a decision on a document that may have several branches.
    ///
    /// A version of ours covers all our earlier ones. If another live branch, which the new revision does not descend from, has one of those, that
    /// would be wrong: peers would consider that branch known, and drop it. Such a revision is compared like a tree revision instead.
    /// - Parameter known: the vectors of what it descends from.
    func version(for revision: RevisionID, knowing known: [VersionVector], in tree: RevisionTree) throws(StoreError) -> VectorVersion {
        if tree.hasVectors, tree.leaves.count > 1 {
            let source = try versionSource()
            let isUntrue = tree.leaves.contains { (leaf) in
                guard !leaf.isDeleted, leaf.revision != revision, let vector = tree.nearestVector(of: leaf.revision) else { return false }
                return ([vector.current] + vector.others).contains { version in
                    version.source == source && !known.contains { $0.knows(version) }
                }
            }
            if isUntrue { return VectorVersion(standingFor: revision) }
        }
        return try nextVersion()
    }

    /// The machine's clock was set back: from here on versions use another source id, so that none is in the future and none is made twice. How far
    /// the old source id got is remembered until that time has come. All of this becomes durable, or is rolled back, with the first version of the
    /// new source id.
    private func switchSource() throws(StoreError) -> SourceID {
        var ahead = try property(VersionProperty.ahead).flatMap { VersionsAhead($0) } ?? VersionsAhead(through: 0)
        ahead.take(VersionsAhead(through: max(state.clock.last, state.clock.reserved), since: state.now))
        try setProperty(VersionProperty.ahead, ahead.description)
        state.versions.note(ahead)
        try giveUp(try versionSource())
        (state.clock.last, state.clock.reserved) = (0, 0)
        return try takeNewSource()
    }

    private func giveUp(_ source: SourceID) throws(StoreError) {
        state.clock.givenUp = (state.clock.givenUp + [source]).suffix(VersionClock.givenUpSources)
        try setProperty(VersionProperty.givenUp, state.clock.givenUp.map(\.description).joined(separator: ","))
    }

    /// Advances the clock beyond what a peer has seen, unless that is further ahead than a correctly set clock should be: its versions are accepted
    /// nevertheless, but do not affect our clock.
    ///
    /// - Parameter sender: a description of the peer that sent it.
    func observe(_ vector: VersionVector, from sender: String?) throws(StoreError) {
        let (now, source) = (UInt64(clamping: state.wallNanoseconds), try versionSource())
        var copys: VectorVersion?
        for version in [vector.current] + vector.others {
            if StoreLimits.isAhead(version.time, of: now) {
                // A version that was made here comes back, perhaps from a peer: it is reported as ours.
                if version.source != .revisionTree, try !ownSources().contains(version.source) || version.time > state.versions.ahead.through {
                    session.problems.noteClock(version, from: sender)
                }
            } else {
                state.clock.last = max(state.clock.last, version.time)
            }
            if version.source == source, version.time > state.clock.reserved { copys = version }
        }
        // Somebody else assigns versions with our source id: most likely a copy of this database.
        if let copys {
            session.problems.noteCopy(copys, from: sender)
            try giveUp(source)
            try takeNewSource()
        }
    }

    /// The source ids under which versions were made here, and of which only this database knows all versions.
    func ownSources() throws(StoreError) -> [SourceID] { [try versionSource()] + state.clock.givenUp }

    /// The source id for local edits.
    func versionSource() throws(StoreError) -> SourceID {
        if let source = state.clock.source { return source }
        state.clock.givenUp = (try property(VersionProperty.givenUp) ?? "").split(separator: ",").compactMap { SourceID(text: $0) }
        if let written = try property(VersionProperty.reserved), let reserved = UInt64(written, radix: 16) {
            // No clock gets this far: a stored value beyond it could not be incremented safely.
            state.clock.reserved = min(reserved, VectorVersion.largestTime)
            state.clock.last = max(state.clock.last, state.clock.reserved)
        }
        if let written = try property(VersionProperty.source), let source = SourceID(text: written), try property(VersionProperty.home) == state.home {
            state.clock.source = source
            return source
        }
        // A database that makes its first version, or one whose file was copied: two databases must not share a source id.
        return try takeNewSource()
    }

    @discardableResult
    private func takeNewSource() throws(StoreError) -> SourceID {
        guard let source = SourceID(state.random.bytes(16)) else { throw session.damaged("no version source") }
        state.clock.source = source
        state.versions.note()
        try setProperty(VersionProperty.source, source.description)
        try setProperty(VersionProperty.home, state.home)
        return source
    }
}

/// Rows of the property table that belong to versions and their clock.
enum VersionProperty {
    /// A peer that identifies revisions by versions has connected.
    static let peer = "version_peer"
    /// The source id under which this database makes versions.
    static let source = "version_source"
    /// The file for which the source id was created.
    static let home = "version_home"
    static let reserved = "version_reserved"
    /// Abandoned source ids.
    static let givenUp = "version_given_up"
    /// For source ids abandoned because the machine's clock had been ahead: see ``VersionsAhead``.
    static let ahead = "version_ahead"
}
