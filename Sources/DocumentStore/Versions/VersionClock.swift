import Documents
import Encodings
import SQLite
import Synchronization

/// What the writer knows of the clock that gives versions to edits made here: a hybrid logical clock, which follows the machine's and never
/// goes back, also over restarts (replication.md section 7).
struct VersionClock {
    /// Nil until it is read, and after a job that may have set it was undone.
    fileprivate(set) var source: SourceID?
    /// Names that were given up because somebody else made versions under them: what was made here under one is known all the same.
    fileprivate(set) var givenUp: [SourceID] = []
    /// The last time that was given out, or seen elsewhere.
    fileprivate var last: UInt64 = 0
    /// Times up to here are not given out by a later start. Durable with the first version that needs it.
    fileprivate var reserved: UInt64 = 0

    /// How far a stored reservation runs ahead of the versions, in nanoseconds: one write a second at most.
    fileprivate static let reservation: UInt64 = 1_000_000_000

    /// What was written of it is undone.
    mutating func forgetWritten() { (source, givenUp, reserved) = (nil, [], 0) }

    /// `given_up_sources`: the last ones are remembered.
    fileprivate static let givenUpSources = 16
}

extension WriteTransaction {
    /// A version for an edit that is made here.
    func nextVersion() throws(StoreError) -> VectorVersion {
        let source = try versionSource()
        // A machine without a clock begins in 1970, where peers would take none of its versions.
        let time = max(UInt64(clamping: state.wallNanoseconds), state.clock.last + 1, VectorVersion.times.lowerBound)
        state.clock.last = time
        if time > state.clock.reserved {
            state.clock.reserved = time + VersionClock.reservation
            try setProperty(VersionProperty.reserved, String(state.clock.reserved, radix: 16))
        }
        return VectorVersion(time: time, source: source)
    }

    /// The clock goes on behind what a peer has seen, unless that is further ahead than clocks that are set should be: its versions are taken
    /// all the same, and lead our clock nowhere.
    func observe(_ vector: VersionVector) throws(StoreError) {
        let (now, source) = (UInt64(clamping: state.wallNanoseconds), try versionSource())
        var isOurs = false
        for version in [vector.current] + vector.others {
            if version.time > now, version.time - now > StoreLimits.clockDriftNanoseconds {
                if version.source != .revisionTree { session.problems.noteClock(version) }
            } else {
                state.clock.last = max(state.clock.last, version.time)
            }
            if version.source == source, version.time > state.clock.reserved { isOurs = true }
        }
        // Somebody gives out versions under our name: a copy of this database, most likely.
        if isOurs {
            state.clock.givenUp = (state.clock.givenUp + [source]).suffix(VersionClock.givenUpSources)
            try setProperty(VersionProperty.givenUp, state.clock.givenUp.map(\.description).joined(separator: ","))
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
            state.clock.reserved = reserved
            state.clock.last = max(state.clock.last, reserved)
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

/// Whether the database has version vectors: then its peers of our own kind are spoken to by versions.
final class VersionUse: Sendable {
    private let isSeen: Atomic<Bool>

    init(_ isSeen: Bool) { self.isSeen = Atomic(isSeen) }

    var isInUse: Bool { isSeen.load(ordering: .relaxed) }
    func note() { isSeen.store(true, ordering: .relaxed) }
}

/// Rows of the table of properties that belong to the clock.
enum VersionProperty {
    /// The name under which this database makes versions.
    static let source = "version_source"
    /// The file that the name was given to.
    static let home = "version_home"
    static let reserved = "version_reserved"
    /// Names that were given up.
    static let givenUp = "version_given_up"
}
