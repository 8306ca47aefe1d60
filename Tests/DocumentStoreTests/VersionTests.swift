import DocumentStore
import Documents
import SQLite
import Testing

/// Documents that peers with version vectors edit, alongside peers with revision trees.
@Suite("Version vectors in the store") struct VersionTests {
    private static let ann = "AAAAAAAAAAAAAAAAAAAAAA"
    private static let bob = "ABEiM0RVZneImaq7zN3u/w"

    private func insert(
        _ store: Store, _ id: String, _ revision: String, _ history: String = "", body: String = "{}", deleted: Bool = false,
        remote: RemoteID? = nil, _ conflicts: ConflictHandling = .refuse
    ) async throws -> InsertOutcome {
        try await insert(store, id, try VectorHistory(revision, history: history), body: body, deleted: deleted, remote: remote, conflicts)
    }

    private func insert(
        _ store: Store, _ id: String, _ vector: VectorHistory, body: String = "{}", deleted: Bool = false, remote: RemoteID? = nil,
        _ conflicts: ConflictHandling = .refuse
    ) async throws -> InsertOutcome {
        let c = try store.c
        var incoming = IncomingRevision(
            id: doc(id), revision: RevisionID(vector.vector.current), history: [], isDeleted: deleted, body: Array(body.utf8), remote: remote)
        incoming.vector = vector
        return try await store.database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: conflicts) }
    }

    private func vector(_ store: Store, _ id: String) async throws -> VersionVector? {
        let c = try store.c
        return try await store.database.read { try $0.currentVector(c, doc(id)) }
    }

    private func tree(_ store: Store, _ id: String) async throws -> RevisionTree {
        let c = try store.c
        return try #require(try await store.database.read { try $0.tree(c, doc(id)) })
    }

    private func verdict(_ store: Store, _ id: String, _ revision: String, _ parent: String? = nil, whole: String? = nil) async throws -> ProposalVerdict {
        let c = try store.c
        let proposal = Proposal(
            id: doc(id), revision: try RevisionID(named: revision), parent: try parent.map { try RevisionID(named: $0) },
            vector: try whole.map { try VectorHistory($0, history: "") })
        return try #require(try await store.database.read { try $0.checkProposals(c, [proposal], naming: .vectors) }.first)
    }

    @Test("a new document gets a first revision and keeps its vector; the same again changes nothing, and is the same everywhere")
    func arrives() async throws {
        let store = try Store(), other = try Store()
        let outcome = try await insert(store, "a", "5@\(Self.ann)", "3@\(Self.bob)", body: #"{"n":1}"#)
        #expect(outcome == .inserted(sequence: 1))
        #expect(try await vector(store, "a")?.description == "5@\(Self.ann);3@\(Self.bob)")
        let revision = try #require(try await store.get("a")).revision
        #expect(revision.generation == 1 && revision.kind == .tree)
        #expect(try await insert(store, "a", "5@\(Self.ann)", "3@\(Self.bob)", body: #"{"n":1}"#) == .alreadyPresent)
        _ = try await insert(other, "a", "5@\(Self.ann)", body: #"{"n":1}"#)
        #expect(try await other.get("a")?.revision == revision)
        store.database.close()
        let again = try Store(folder: store.folder)
        #expect(try await vector(again, "a")?.current.description == "5@\(Self.ann)")
    }

    @Test("an edit goes on top of what it knows, an old one is skipped, and a concurrent one is refused or kept as a branch")
    func order() async throws {
        let store = try Store()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        #expect(try await insert(store, "a", "7@\(Self.bob)", "5@\(Self.ann)", body: #"{"n":2}"#) == .inserted(sequence: 2))
        #expect(try await store.get("a")?.revision.generation == 2)
        #expect(try await insert(store, "a", "4@\(Self.ann)") == .alreadyPresent)
        let current = try #require(try await store.get("a")).revision
        #expect(try await insert(store, "a", "6@\(Self.ann)", body: #"{"n":3}"#) == .conflict(current: current))
        let remote = try await store.remote()
        guard case .insertedConflict = try await insert(store, "a", "6@\(Self.ann)", body: #"{"n":3}"#, remote: remote, .store) else {
            Issue.record("no conflict")
            return
        }
        let conflict = try #require(try await store.conflict("a"))
        #expect(conflict.local.version?.description == "7@\(Self.bob)" && conflict.remote.version?.description == "6@\(Self.ann)")
        #expect(conflict.hasTimes)
        let merged = try await store.resolve("a", .merged(Array(#"{"n":5}"#.utf8)))
        let vector = try #require(try await vector(store, "a"))
        #expect(try vector.knows(VectorVersion("7@\(Self.bob)")) && vector.knows(VectorVersion("6@\(Self.ann)")))
        #expect(vector.merged.count == 2)
        #expect(try await store.get("a")?.revision == merged.revision)
    }

    /// Where peers keep every branch, the loser has its end on top of it.
    @Test("a branch that lost here but won at a peer, which knew our winner, is what is read, and does not disappear when its branch ends", arguments: [false, true])
    func wonElsewhere(isGrown: Bool) async throws {
        let store = try Store()
        await store.database.noteBranchKeeper()
        let remote = try await store.remote()
        let cat = "ACIzRFVmd4iZqrvM3e4AEQ"
        _ = try await insert(store, "a", "5@\(Self.ann)", body: #"{"n":1}"#)
        let loser = try #require(try await store.get("a")).revision
        if isGrown { _ = try await insert(store, "a", "6@\(Self.ann)", "5@\(Self.ann)", body: #"{"n":3}"#) }
        _ = try await insert(store, "a", "7@\(Self.bob)", body: #"{"n":2}"#, remote: remote, .store)
        _ = try await store.resolve("a", .remoteWins)
        #expect(try await tree(store, "a").leaves.count == 2)
        var vector = try VectorHistory("9@\(cat)", history: "7@\(Self.bob),5@\(Self.ann);")
        vector.place = VectorHistory.TreePlace(revision: loser, history: [])
        let outcome = try await insert(store, "a", vector, body: #"{"n":1}"#, remote: remote, .store)
        guard case .inserted = outcome else {
            Issue.record("\(outcome)")
            return
        }
        let current = try #require(try await store.get("a"))
        #expect(current.revision == loser && !current.isDeleted && !current.hasConflict && current.body == Array(#"{"n":1}"#.utf8))
        #expect(try await tree(store, "a").leaves.map(\.revision) == [loser])
    }

    @Test("the version that a revision of a tree gets here does not say when it was made")
    func timesOfTrees() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        let first = try #require(try await store.get("a")).revision
        _ = try await insert(store, "a", "7@\(Self.bob)", "5@\(Self.ann)")
        _ = try await store.insert("a", "2-ffff", [first.text], remote: remote)
        let conflict = try #require(try await store.conflict("a"))
        #expect(conflict.local.version?.description == "7@\(Self.bob)" && !conflict.hasTimes)
    }

    @Test("a decision for one side covers both, even if they had no vectors")
    func decisions() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        _ = try await insert(store, "a", "7@\(Self.bob)", remote: remote, .store)
        _ = try await store.resolve("a", .remoteWins)
        let vector = try #require(try await vector(store, "a"))
        #expect(try vector.current.description == "7@\(Self.bob)" && vector.knows(VectorVersion("5@\(Self.ann)")))
        // 2-bb would be older than 3-cc for a peer of version vectors that has 3-cc.
        _ = try await store.insert("b", "3-cc", ["2-cc", "1-cc"])
        _ = try await store.insert("b", "2-bb", ["1-bb"], remote: remote)
        _ = try await store.resolve("b", .remoteWins)
        let other = try #require(try await self.vector(store, "b"))
        #expect(other.knows(VectorVersion(standingFor: rev("3-cc"))))
        #expect(other.knows(VectorVersion(standingFor: rev("2-bb"))))
        // If the winner has the higher generation, it stays without one.
        _ = try await store.insert("c", "2-bb", ["1-bb"])
        _ = try await store.insert("c", "3-cc", ["2-cc", "1-cc"], remote: remote)
        _ = try await store.resolve("c", .remoteWins)
        #expect(try await self.vector(store, "c") == nil)
    }

    @Test("an edit made elsewhere on top of a decision covers both sides as well, although the other side never knew the loser")
    func editsOfDecisions() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        _ = try await insert(store, "a", "7@\(Self.bob)", remote: remote, .store)
        _ = try await store.resolve("a", .remoteWins)
        _ = try await insert(store, "a", "9@\(Self.bob)", body: #"{"n":2}"#, remote: remote, .store)
        let vector = try #require(try await vector(store, "a"))
        #expect(try vector.current.description == "9@\(Self.bob)" && vector.knows(VectorVersion("5@\(Self.ann)")))
        // Who still has the loser does not bring it back.
        #expect(try await verdict(store, "a", "5@\(Self.ann)") == .haveNewer)
    }

    @Test("a decision makes no version if no peer with versions has connected, but does so once one has, even if only to read")
    func decisionsOfTrees() async throws {
        let store = try Store()
        let remote = try await store.remote()
        func decide(_ id: String, _ resolution: Resolution) async throws {
            // By the versions that stand for them the side from there is the older one, whatever is decided.
            _ = try await store.insert(id, "3-cc", ["2-cc", "1-cc"], body: #"{"at":"here"}"#)
            _ = try await store.insert(id, "2-bb", ["1-bb"], body: #"{"at":"there"}"#, remote: remote)
            _ = try await store.resolve(id, resolution)
        }
        for (number, resolution) in [Resolution.remoteWins, .localWins, .delete, .merged(Array(#"{"at":"both"}"#.utf8))].enumerated() {
            try await decide("d\(number)", resolution)
            #expect(try await vector(store, "d\(number)") == nil, "\(resolution)")
        }
        #expect(!store.database.hasVersions)
        store.database.noteVersionPeer()
        try await decide("later", .remoteWins)
        let later = try #require(try await vector(store, "later"))
        #expect(later.knows(VectorVersion(standingFor: rev("3-cc"))) && later.knows(VectorVersion(standingFor: rev("2-bb"))))
        // Known after a restart as well, also where nothing has got a version.
        let marked = try Store()
        marked.database.noteVersionPeer()
        marked.database.close()
        #expect(try Store(folder: marked.folder).database.hasVersions)
    }

    @Test("a remote that switched to a lower revision is followed under a version that is newer than the one it left")
    func lesserRevisions() async throws {
        for isVersioned in [false, true] {
            let store = try Store()
            let (c, remote) = (try store.c, try await store.remote())
            if isVersioned { store.database.noteVersionPeer() }
            _ = try await store.insert("x", "3-cc", ["2-cc", "1-00"], remote: remote)
            var incoming = IncomingRevision(id: doc("x"), revision: rev("2-aa"), history: [rev("1-00")], body: Array(#"{"n":1}"#.utf8), remote: remote)
            incoming.endedLeaves = [rev("3-cc")]
            _ = try await store.database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: .store) }
            #expect(try await store.get("x")?.revision == rev("2-aa"))
            let vector = try await vector(store, "x")
            #expect(isVersioned ? vector?.knows(VectorVersion(standingFor: rev("3-cc"))) == true : vector == nil, "\(isVersioned)")
        }
    }

    @Test("two agents that used ids gave the same revision a version each: an edit on top of it is newer than both")
    func twoVersions() async throws {
        let (a, b) = (try Store(), try Store())
        for store in [a, b] { _ = try await insert(store, "x", "5@\(Self.ann)", body: #"{"n":1}"#) }
        let first = try #require(try await a.get("x")).revision
        _ = try await insert(a, "x", "7@\(Self.ann)", body: #"{"n":2}"#)
        let second = try #require(try await a.get("x")).revision
        _ = try await b.insert("x", second.text, [first.text], body: #"{"n":2}"#)
        let theirs = try #require(try await vector(b, "x")).current
        #expect(theirs.description != "7@\(Self.ann)")
        let edit = try await b.save("x", #"{"n":3}"#, parent: second).revision
        var named = VectorHistory(try #require(try await vector(b, "x")))
        named.place = VectorHistory.TreePlace(revision: edit, history: RevisionHistory([second, first]))
        var incoming = IncomingRevision(id: doc("x"), revision: RevisionID(named.vector.current), history: [], body: Array(#"{"n":3}"#.utf8))
        incoming.vector = named
        let c = try a.c
        let outcome = try await a.database.write { [incoming] in try $0.insert(incoming, into: c, conflicts: .refuse) }
        guard case .inserted = outcome else { Issue.record("\(outcome)"); return }
        #expect(try await a.get("x")?.revision == edit)
        // Clients of either agent find it newer than what they have.
        let known = try #require(try await vector(a, "x"))
        #expect(try known.knows(VectorVersion("7@\(Self.ann)")) && known.knows(theirs))
    }

    @Test("an edit made here on top of a version gets a version of this database; other documents stay as they are")
    func edits() async throws {
        let store = try Store()
        let legacy = try await store.save("plain", "{}")
        _ = try await store.save("plain", #"{"n":1}"#, parent: legacy.revision)
        #expect(try await vector(store, "plain") == nil)
        _ = try await insert(store, "a", "5@\(Self.ann)")
        let first = try await store.save("a", #"{"n":1}"#, parent: try #require(try await store.get("a")).revision)
        let one = try #require(try await vector(store, "a"))
        #expect(try one.knows(VectorVersion("5@\(Self.ann)")) && one.current.source.description != Self.ann)
        _ = try await store.insert("a", "3-cc", [first.revision.text])
        let two = try #require(try await vector(store, "a"))
        #expect(two.current.source == one.current.source && two.current.time > one.current.time)
        // The whole tree may go, the versions stay.
        var revision = rev("3-cc")
        for n in 0..<60 { revision = try await store.save("a", "{\"n\":\(n)}", parent: revision).revision }
        #expect(try await vector(store, "a")?.knows(try VectorVersion("5@\(Self.ann)")) == true)
    }

    @Test("the clock never goes back, and a copy of a database has an author id of its own")
    func clock() async throws {
        let store = try Store()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        let current = try #require(try await store.get("a")).revision
        _ = try await store.save("a", #"{"n":1}"#, parent: current)
        let before = try #require(try await vector(store, "a")).current
        let far = before.time + 3_600_000_000_000
        // An hour ahead: our clock follows.
        _ = try await insert(store, "b", "\(String(far, radix: 16))@\(Self.bob)")
        store.database.close()
        let again = try Store(folder: store.folder)
        _ = try await again.save("a", #"{"n":2}"#, parent: try #require(try await again.get("a")).revision)
        let after = try #require(try await vector(again, "a")).current
        #expect(after.source == before.source && after.time > before.time)
        // Another file: a copy.
        try again.alter("UPDATE properties SET value = '1' WHERE key = 'version_home'")
        let copy = try Store(folder: store.folder)
        _ = try await copy.save("a", #"{"n":3}"#, parent: try #require(try await copy.get("a")).revision)
        let copied = try #require(try await vector(copy, "a"))
        #expect(copied.current.source != before.source && copied.knows(after))
    }

    @Test("a copy with our author id makes us take another one, and a clock a year ahead is reported and not followed")
    func strangeClocks() async throws {
        let store = try Store()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        _ = try await store.save("a", #"{"n":1}"#, parent: try #require(try await store.get("a")).revision)
        let ours = try #require(try await vector(store, "a")).current
        #expect(store.database.fastestClock == nil && store.database.versionOfCopy == nil)
        let year: UInt64 = 365 * 86_400_000_000_000
        _ = try await insert(store, "b", "\(String(ours.time + year, radix: 16))@\(ours.source)")
        #expect(store.database.fastestClock.map { $0.ahead > year / 2 } == true)
        #expect(store.database.versionOfCopy?.version == VectorVersion(time: ours.time + year, source: ours.source))
        _ = try await store.save("a", #"{"n":2}"#, parent: try #require(try await store.get("a")).revision)
        let next = try #require(try await vector(store, "a")).current
        #expect(next.source != ours.source && next.time < ours.time + year)
    }

    @Test("proposals are answered as Sync Gateway answers them")
    func proposals() async throws {
        let store = try Store()
        #expect(try await verdict(store, "new", "5@\(Self.ann)") == .accept)
        _ = try await insert(store, "a", "5@\(Self.ann)", "3@\(Self.bob)")
        #expect(try await verdict(store, "a", "5@\(Self.ann)") == .have)
        #expect(try await verdict(store, "a", "3@\(Self.bob)") == .haveNewer)
        #expect(try await verdict(store, "a", "9@\(Self.bob)", "5@\(Self.ann)") == .accept)
        #expect(try await verdict(store, "a", "6@\(Self.ann)") == .accept)
        #expect(try await verdict(store, "a", "9@\(Self.bob)") == .conflict(current: try RevisionID(named: "5@\(Self.ann)")))
        #expect(try await verdict(store, "a", "9@\(Self.bob)", whole: "9@\(Self.bob);5@\(Self.ann)") == .accept)
        let legacy = try await store.save("plain", "{}").revision
        #expect(try await verdict(store, "plain", "9@\(Self.bob)", legacy.text) == .accept)
        #expect(try await verdict(store, "plain", "9@\(Self.bob)") == .conflict(current: legacy))
        #expect(try await verdict(store, "plain", legacy.text) == .have)
        #expect(try await verdict(store, "plain", "9@\(Self.bob)", whole: "9@\(Self.bob);\(legacy)") == .accept)
    }

    @Test("of the versions offered, those that no leaf knows are requested")
    func offers() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await insert(store, "a", "5@\(Self.ann)", "3@\(Self.bob)")
        let legacy = try await store.save("plain", "{}").revision
        let offers = try [("a", "5@\(Self.ann)"), ("a", "3@\(Self.bob)"), ("a", "4@\(Self.bob)"), ("plain", legacy.text), ("plain", "2@\(Self.bob)"), ("new", "2@\(Self.bob)")]
            .map { RevisionOffer(id: doc($0.0), revision: try RevisionID(named: $0.1)) }
        let needs = try await store.database.read { try $0.missing(c, offers, naming: .vectors) }
        #expect(needs == [
            .have, .haveEarlier, .need(ancestors: [try RevisionID(named: "5@\(Self.ann)")]), .have, .need(ancestors: [legacy]), .need(ancestors: []),
        ])
    }

    @Test("of two tombstones that a remote reports one after the other, the greater is current, although the lesser had replaced it in between")
    func tombstones() async throws {
        let store = try Store()
        let (c, remote) = (try store.c, try await store.remote())
        func take(_ version: String, _ id: String, _ history: [String]) async throws -> InsertOutcome {
            var vector = try VectorHistory(version, history: "")
            vector.place = VectorHistory.TreePlace(revision: rev(id), history: RevisionHistory(history.map { rev($0) }))
            return try await insert(store, "a", vector, deleted: true, remote: remote, .store)
        }
        func isNeeded(_ version: String) async throws -> Bool {
            let offer = RevisionOffer(id: doc("a"), revision: try RevisionID(named: version), isDeletion: true)
            return try await ![.have, .haveEarlier].contains(store.database.read { try $0.missing(c, [offer], from: remote, naming: .vectors) }.first)
        }
        _ = try await take("7@\(Self.ann)", "2-bb", ["1-00"])
        // The remote has one revision of each document, as far as is known: this side follows it.
        _ = try await take("9@\(Self.bob)", "2-aa", ["1-00"])
        #expect(try await store.get("a")?.revision == rev("2-aa"))
        #expect(try await isNeeded("7@\(Self.ann)"))
        let outcome = try await take("7@\(Self.ann)", "2-bb", ["1-00"])
        guard case .inserted = outcome else {
            Issue.record("\(outcome)")
            return
        }
        let current = try #require(try await store.get("a"))
        #expect(current.revision == rev("2-bb") && current.isDeleted)
        #expect(try await tree(store, "a").leaves.map(\.revision) == [rev("2-bb"), rev("2-aa")])
        #expect(try await !isNeeded("7@\(Self.ann)"))
        #expect(try await !isNeeded("9@\(Self.bob)"))
    }

    @Test("what a remote has is noted by its version, and a delta's base is found by it")
    func names() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        _ = try await insert(store, "a", "5@\(Self.ann)", body: #"{"n":1}"#)
        let revision = try #require(try await store.get("a")).revision
        let name = try RevisionID(named: "5@\(Self.ann)"), stranger = try RevisionID(named: "6@\(Self.ann)")
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), name), (doc("a"), stranger)]) }
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("a")) } == revision)
        #expect(try await store.database.read { try $0.deltaBase(c, doc("a"), name) } == Array(#"{"n":1}"#.utf8))
        #expect(try await store.database.read { try $0.deltaBase(c, doc("a"), stranger) } == nil)
    }

    @Test("a version with our own author id that was never made says nothing about our edits, which are then in conflict with it")
    func invented() async throws {
        let store = try Store()
        _ = try await insert(store, "a", "5@\(Self.ann)")
        let remote = try await store.remote()
        func edit() async throws -> VectorVersion {
            _ = try await store.save("a", #"{"n":1}"#, parent: try await store.get("a")?.revision)
            return try #require(try await vector(store, "a")).current
        }
        let ours = try await edit()
        // What was made is known to those who have seen it.
        #expect(try await insert(store, "a", "7@\(Self.bob)", "\(ours)", remote: remote, .store) == .inserted(sequence: 3))
        let next = try await edit()
        let invented = VectorVersion(time: VectorVersion.largestTime, source: next.source)
        let body = try #require(try await store.get("a")).body
        for (revision, history) in [("8@\(Self.bob)", "\(invented)"), ("\(VectorVersion(time: next.time + 1, source: next.source))", "")] {
            guard case .insertedConflict = try await insert(store, "a", revision, history, body: #"{"n":9}"#, remote: remote, .store) else {
                Issue.record("no conflict: \(revision) \(history)")
                continue
            }
            #expect(try await store.get("a")?.body == body)
            _ = try await store.resolve("a", .localWins)
        }
        #expect(try await insert(store, "a", "9@\(Self.bob)", "\(invented)") == .conflict(current: try #require(try await store.get("a")).revision))
        // A remote that says it has our edit, because it takes that one at its word, has another one all the same.
        let c = try store.c
        let current = try #require(try await store.get("a")).revision
        try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc("a"), current)]) }
        let claim = try VectorHistory("9@\(Self.bob)", history: "\(invented)")
        var incoming = IncomingRevision(id: doc("a"), revision: RevisionID(claim.vector.current), history: [], body: Array(#"{"n":9}"#.utf8), remote: remote)
        (incoming.vector, incoming.peerHad) = (claim, PeerRevision.none)
        guard case .insertedConflict = try await store.database.write({ [incoming] in try $0.insert(incoming, into: c, conflicts: .store) }) else {
            Issue.record("no conflict: the remote's is passed over")
            return
        }
        _ = try await store.resolve("a", .localWins)
        // Two author ids of ours later: the database continues under another one.
        #expect(try await edit().source != next.source)
    }
}
