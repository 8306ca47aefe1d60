import Documents
import Encodings
import SQLite

/// What the writer knows of the clock that gives versions to edits made here: a hybrid logical clock, which follows the machine's and, under
/// one name, never goes back, also over restarts (replication.md section 7).
///
/// A machine whose clock was ahead for a while and is set right leaves this one ahead. Its name, and with it the times that were given out
/// under it, is given up then: with the next edit the database goes on under a new name, from the machine's time. That edit is newer than what
/// it replaces all the same, since vectors are compared author by author and it keeps the old name's version behind its own. Peers that refuse
/// versions of a time to come, as Couchbase Lite 4 does, take what is edited from then on, but for documents that have a version of the old
/// name: those wait for its time.
///
/// A machine whose clock has not been set says nothing of how far ahead this one is, so it goes on as it is: see `earliestSeconds`.
struct VersionClock {
    /// Nil until it is read, and after a job that may have set it was undone.
    fileprivate(set) var source: SourceID?
    /// Names that were given up, because somebody else made versions under them or the machine's clock had been ahead: what was made here under
    /// one is known all the same.
    fileprivate(set) var givenUp: [SourceID] = []
    /// The last time that was given out, or seen elsewhere.
    fileprivate var last: UInt64 = 0
    /// Times up to here are not given out by a later start. Durable with the first version that needs it.
    fileprivate var reserved: UInt64 = 0

    /// How far a stored reservation runs ahead of the versions, in nanoseconds: one write a second at most.
    static let reservation: UInt64 = 1_000_000_000

    /// What was written of it is undone.
    mutating func forgetWritten() { (source, givenUp, reserved) = (nil, [], 0) }

    /// `given_up_sources`: the last ones are remembered.
    fileprivate static let givenUpSources = 16

    /// The machine's clock is set, and the times given out are further ahead of it than peers take.
    ///
    /// What is reserved at most beyond them is none of them.
    fileprivate func isAhead(of now: UInt64) -> Bool {
        now >= StoreLimits.earliestNanoseconds && StoreLimits.isAhead(last, of: now + Self.reservation)
    }
}

extension WriteTransaction {
    /// A version for an edit that is made here.
    func nextVersion() throws(StoreError) -> VectorVersion {
        var source = try versionSource()
        let now = UInt64(clamping: state.wallNanoseconds)
        if state.clock.isAhead(of: now) { source = try beginAnew() }
        // A machine without a clock begins in 1970, where peers would take none of its versions.
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
    /// A version of ours claims all earlier ones of ours. Beside another live branch that has one of them, which the new revision does not
    /// descend from, that would be untrue: peers would take that branch for known, and drop it. Such a revision is compared as one of a tree.
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

    /// The machine's clock was set back: versions are made under another name from here on, so that none is of a time to come and none is made
    /// twice. How far the old name came is remembered until that time is there. All of it is durable with the first version of the new name,
    /// or undone with it.
    private func beginAnew() throws(StoreError) -> SourceID {
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

    /// The clock goes on behind what a peer has seen, unless that is further ahead than clocks that are set should be: its versions are taken
    /// all the same, and lead our clock nowhere.
    ///
    /// - Parameter sender: who gave it, in words.
    func observe(_ vector: VersionVector, from sender: String?) throws(StoreError) {
        let (now, source) = (UInt64(clamping: state.wallNanoseconds), try versionSource())
        var copys: VectorVersion?
        for version in [vector.current] + vector.others {
            if StoreLimits.isAhead(version.time, of: now) {
                // What was made here comes back, perhaps by a peer: it is told as ours.
                if version.source != .revisionTree, try !ownSources().contains(version.source) || version.time > state.versions.ahead.through {
                    session.problems.noteClock(version, from: sender)
                }
            } else {
                state.clock.last = max(state.clock.last, version.time)
            }
            if version.source == source, version.time > state.clock.reserved { copys = version }
        }
        // Somebody gives out versions under our name: a copy of this database, most likely.
        if let copys {
            session.problems.noteCopy(copys, from: sender)
            try giveUp(source)
            try takeNewSource()
        }
    }

    /// The names under which versions were made here, and nobody else knows which.
    func ownSources() throws(StoreError) -> [SourceID] { [try versionSource()] + state.clock.givenUp }

    /// The name under which edits are made here.
    func versionSource() throws(StoreError) -> SourceID {
        if let source = state.clock.source { return source }
        state.clock.givenUp = (try property(VersionProperty.givenUp) ?? "").split(separator: ",").compactMap { SourceID(text: $0) }
        if let written = try property(VersionProperty.reserved), let reserved = UInt64(written, radix: 16) {
            // No clock comes as far: what is stored beyond it could not be counted on from.
            state.clock.reserved = min(reserved, VectorVersion.largestTime)
            state.clock.last = max(state.clock.last, state.clock.reserved)
        }
        if let written = try property(VersionProperty.source), let source = SourceID(text: written), try property(VersionProperty.home) == state.home {
            state.clock.source = source
            return source
        }
        // A database that makes its first version, or one whose file was copied: two must not have one name.
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

/// Rows of the table of properties that belong to versions and their clock.
enum VersionProperty {
    /// A peer came that knows revisions by versions.
    static let peer = "version_peer"
    /// The name under which this database makes versions.
    static let source = "version_source"
    /// The file that the name was given to.
    static let home = "version_home"
    static let reserved = "version_reserved"
    /// Names that were given up.
    static let givenUp = "version_given_up"
    /// Of names that were given up because the machine's clock had been ahead: see ``VersionsAhead``.
    static let ahead = "version_ahead"
}
