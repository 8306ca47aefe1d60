import DocumentStore
import Documents
import Environment
import Synchronization
import Testing

/// What edits get while the machine's clock is wrong, and once it is set right.
@Suite("The clock of versions") struct VersionClockTests {
    /// 15 November 2026.
    private static let start: Int64 = 1_794_700_800
    private static let hour: Int64 = 3_600
    private static let second: UInt64 = 1_000_000_000

    /// A machine whose clock is set by hand. Its databases give each edit a version.
    private final class Gateway: TimeSource {
        private let wall: Mutex<Int64>
        let folder: String
        private let opened: Mutex<Database?> = Mutex(nil)

        init(_ seconds: Int64 = start) throws {
            wall = Mutex(seconds)
            folder = try temporaryFolder() + "/test.nightjar"
        }

        func monotonicNanoseconds() -> UInt64 { SystemTime().monotonicNanoseconds() }
        func wallSeconds() -> Int64 { wall.withLock { $0 } }
        func sleep(nanoseconds: UInt64) async throws { throw CancellationError() }

        func set(_ seconds: Int64) { wall.withLock { $0 = seconds } }
        var now: UInt64 { UInt64(wallSeconds()) * second }

        func database() throws -> Database {
            if let database = opened.withLock({ $0 }) { return database }
            var options = DatabaseOptions()
            options.versionsEdits = true
            let database = try Database.open(
                folder: folder, name: "test", options: options, environment: Environment(time: self, random: SystemRandom()))
            opened.withLock { $0 = database }
            return database
        }

        func stop() {
            opened.withLock {
                $0?.close()
                $0 = nil
            }
        }

        /// Saves the document, on top of what is there of it.
        @discardableResult
        func edit(_ id: String, _ body: String = #"{"n":1}"#, fails: Bool = false) async throws -> VersionVector {
            struct Undone: Error {}
            let database = try database()
            let c = try #require(database.collection(.default))
            return try await database.write { transaction in
                let parent = try transaction.document(c, doc(id))?.revision
                _ = try transaction.save(c, id: doc(id), body: Array(body.utf8), deleted: false, parent: parent)
                guard !fails, let vector = try transaction.currentVector(c, doc(id)) else { throw Undone() }
                return vector
            }
        }

        /// Another file now, as the file system sees it.
        func copy() throws {
            stop()
            try Store(folder: folder).alter("UPDATE properties SET value = '1' WHERE key = 'version_home'")
        }
    }

    /// As Couchbase Lite 4 looks at what comes, by a clock that is right: no version may be more than two minutes ahead.
    private func isTaken(_ vector: VersionVector, now: UInt64) -> Bool {
        ([vector.current] + vector.others).allSatisfy { $0.time <= now + 120 * Self.second }
    }

    /// Two documents edited an hour ahead, and the clock set right.
    private func setRight() async throws -> (gateway: Gateway, ahead: [VersionVector]) {
        let gateway = try Gateway(Self.start + Self.hour)
        let ahead = [try await gateway.edit("a"), try await gateway.edit("b")]
        gateway.set(Self.start + 10)
        return (gateway, ahead)
    }

    @Test("after a clock that was ahead is corrected, new edits have the right time, and are newer than what they replace")
    func edits() async throws {
        let (gateway, ahead) = try await setRight()
        #expect(!isTaken(ahead[0], now: gateway.now))
        var versions = ahead.map(\.current)
        for id in ["c", "d"] {
            let vector = try await gateway.edit(id)
            #expect(isTaken(vector, now: gateway.now), "\(vector)")
            versions.append(vector.current)
        }
        let edited = try await gateway.edit("a", #"{"n":2}"#)
        #expect(edited.relation(to: ahead[0]) == .newer && ahead[0].relation(to: edited) == .older)
        #expect(edited.current.time < gateway.now + 120 * Self.second)
        let again = try await gateway.edit("a", #"{"n":3}"#)
        #expect(again.relation(to: edited) == .newer && again.relation(to: ahead[0]) == .newer)
        versions += [edited.current, again.current]
        #expect(Set(versions).count == versions.count)
        #expect(Set(versions.map(\.source)).count == 2)
        // Couchbase Lite takes it when the old version's time has come.
        #expect(!isTaken(again, now: gateway.now) && isTaken(again, now: ahead[1].current.time))
    }

    @Test("the new author id, and what is known of the old one, survive a restart; no version is made twice")
    func restart() async throws {
        let (gateway, ahead) = try await setRight()
        var versions = ahead.map(\.current) + [try await gateway.edit("c").current]
        let told = try #require(try gateway.database().versionsAhead)
        for second in 0..<3 {
            gateway.stop()
            gateway.set(Self.start + 11 + Int64(second))
            let vector = try await gateway.edit("c", "{\"n\":\(second)}")
            #expect(vector.current.source == versions[2].source && isTaken(vector, now: gateway.now))
            versions.append(vector.current)
            let known = try #require(try gateway.database().versionsAhead)
            #expect(known.through == told.through && known.since == Self.start + 10)
        }
        #expect(Set(versions).count == versions.count)
        // One that stops before it made any version after its clock was set right.
        let other = try await setRight().gateway
        other.stop()
        #expect(try other.database().versionsAhead?.since == nil && other.database().versionsAhead != nil)
        #expect(isTaken(try await other.edit("c"), now: other.now))
    }

    @Test("a copy makes versions under an author id of its own, with the right time")
    func copies() async throws {
        let (gateway, ahead) = try await setRight()
        let name = try await gateway.edit("c").current.source
        try gateway.copy()
        let copied = try await gateway.edit("a", #"{"n":2}"#)
        #expect(![ahead[0].current.source, name].contains(copied.current.source) && copied.relation(to: ahead[0]) == .newer)
        #expect(try await isTaken(gateway.edit("d"), now: gateway.now))
        // A copy that was made while the clock was ahead.
        let (early, first) = try await setRight()
        try early.copy()
        let next = try await early.edit("a", #"{"n":2}"#)
        #expect(next.current.source != first[0].current.source && next.relation(to: first[0]) == .newer)
        #expect(try await isTaken(early.edit("d"), now: early.now))
    }

    @Test("a write that is rolled back takes the new author id with it, and the next one starts afresh")
    func undone() async throws {
        let (gateway, ahead) = try await setRight()
        await #expect(throws: (any Error).self) { try await gateway.edit("c", fails: true) }
        let vector = try await gateway.edit("a", #"{"n":2}"#)
        #expect(vector.relation(to: ahead[0]) == .newer && vector.current.source != ahead[0].current.source)
        #expect(vector.current.time <= gateway.now + Self.second)
        let last = try await gateway.edit("c").current
        gateway.stop()
        let next = try await gateway.edit("c", #"{"n":2}"#).current
        #expect(next.source == last.source && next.time > last.time && next.time <= gateway.now + 3 * Self.second)
    }

    @Test("a clock that is set back by less than two minutes changes nothing except that versions are close together")
    func little() async throws {
        let gateway = try Gateway()
        let first = try await gateway.edit("a").current
        gateway.set(Self.start - 100)
        let second = try await gateway.edit("a", #"{"n":2}"#).current
        #expect(second.source == first.source && second.time > first.time && second.time - first.time < Self.second)
        gateway.stop()
        let third = try await gateway.edit("a", #"{"n":3}"#).current
        #expect(third.source == first.source && third.time > second.time)
        #expect(try gateway.database().versionsAhead == nil)
    }

    @Test("a clock set back by an hour, and forward again: edits stay newer than what they replace")
    func backAndForth() async throws {
        let gateway = try Gateway()
        var last = try await gateway.edit("a")
        var versions = [last.current]
        for (step, hours) in ([-1, 0, -1, -2, 1, 0, 0] as [Int64]).enumerated() {
            gateway.set(Self.start + hours * Self.hour + Int64(step))
            let next = try await gateway.edit("a", "{\"n\":\(step + 2)}")
            #expect(next.relation(to: last) == .newer, "step \(step)")
            #expect(next.current.time <= gateway.now + 121 * Self.second)
            last = next
            versions.append(next.current)
        }
        #expect(Set(versions).count == versions.count)
    }

    @Test("until the clock is set after a start, versions go on from the last one, and the clock is ignored")
    func unset() async throws {
        let gateway = try Gateway()
        let before = try await gateway.edit("a").current
        gateway.stop()
        gateway.set(7)
        let unset = try await gateway.edit("a", #"{"n":2}"#).current
        #expect(unset.source == before.source && unset.time > before.time && unset.time - before.time < 10 * Self.second)
        #expect(try gateway.database().versionsAhead == nil)
        gateway.set(Self.start + Self.hour)
        let set = try await gateway.edit("a", #"{"n":3}"#).current
        #expect(set.source == before.source && set.time >= gateway.now)
        // One without any version.
        let new = try Gateway(7)
        let first = try await new.edit("a").current
        #expect(VectorVersion.times.contains(first.time))
        new.set(Self.start)
        let second = try await new.edit("a", #"{"n":2}"#).current
        #expect(second.source == first.source && second.time >= new.now)
    }

    @Test("the database says how far ahead its versions are, until that time has come")
    func told() async throws {
        let gateway = try Gateway(Self.start + Self.hour)
        #expect(try gateway.database().versionsAhead == nil)
        try await gateway.edit("a")
        #expect(try gateway.database().versionsAhead == nil)
        // Nobody has edited anything since.
        gateway.set(Self.start)
        let idle = try #require(try gateway.database().versionsAhead)
        #expect(idle.since == nil && idle.ahead >= UInt64(Self.hour) * Self.second && idle.through >= Self.start + Self.hour)
        gateway.set(Self.start + 5)
        try await gateway.edit("b")
        let known = try #require(try gateway.database().versionsAhead)
        #expect(known.since == Self.start + 5 && known.ahead < idle.ahead && known.through == idle.through)
        gateway.set(Self.start + Self.hour)
        #expect(try gateway.database().versionsAhead == nil)
        // A second time is another one.
        gateway.set(Self.start + 3 * Self.hour)
        try await gateway.edit("b", #"{"n":2}"#)
        gateway.set(Self.start + Self.hour)
        #expect(try gateway.database().versionsAhead?.since == nil && gateway.database().versionsAhead != nil)
    }

    @Test("versions of this database that a peer brings back are not mistaken for those of a peer whose clock is fast")
    func broughtBack() async throws {
        let (gateway, ahead) = try await setRight()
        try await gateway.edit("c")
        let database = try gateway.database()
        let c = try #require(database.collection(.default))
        func bring(_ id: String, _ version: VectorVersion, _ history: String) async throws {
            let vector = try VectorHistory(version.description, history: history)
            var incoming = IncomingRevision(
                id: doc(id), revision: RevisionID(vector.vector.current), history: [], isDeleted: false, body: Array("{}".utf8), remote: nil)
            incoming.vector = vector
            incoming.sender = "the peer of \(id)"
            _ = try await database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: .refuse) }
        }
        let bob = try #require(SourceID(text: "ABEiM0RVZneImaq7zN3u/w"))
        try await bring("a", VectorVersion(time: gateway.now, source: bob), "\(ahead[0].current)")
        #expect(database.fastestClock == nil)
        // The time of the peer's is another matter.
        try await bring("x", VectorVersion(time: gateway.now + UInt64(Self.hour) * Self.second, source: bob), "")
        #expect(database.fastestClock?.version.source == bob && database.fastestClock?.sender == "the peer of x")
    }
}
