import DocumentStore
import Documents
import Testing

@Suite struct ConflictTests {
    /// A document pulled as 1, edited here to 2, edited there to `theirs`.
    func conflicted(_ store: Store, theirs: String = "2-ff", deleted: Bool = false) async throws -> (RemoteID, SavedRevision, InsertOutcome) {
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-aa", body: #"{"base":1}"#, remote: remote)
        let mine = try await store.save("a", #"{"mine":1}"#, parent: rev("1-aa"))
        let outcome = try await store.insert(
            "a", theirs, ["1-aa"], body: deleted ? "{}" : #"{"theirs":1}"#, deleted: deleted, remote: remote)
        return (remote, mine, outcome)
    }

    @Test func bothSidesAndTheirBaseAreKept() async throws {
        let store = try Store()
        let (remote, mine, outcome) = try await conflicted(store)
        guard case .insertedConflict(mine.revision, rev("2-ff"), _) = outcome else { return #expect(Bool(false), "\(outcome)") }
        let conflict = try #require(try await store.conflict("a"))
        #expect(text(conflict.local.body) == #"{"mine":1}"#)
        #expect(text(conflict.remote.body) == #"{"theirs":1}"#)
        #expect(conflict.base?.revision == rev("1-aa"))
        #expect(text(conflict.base?.body) == #"{"base":1}"#)
        #expect(conflict.remoteID == remote)
        let current = try #require(try await store.get("a"))
        #expect(current.hasConflict)
        #expect(current.revision == mine.revision, "until it is resolved the local side is the one that is read")
        let c = try store.c
        #expect(try await store.database.read { try $0.pendingConflicts(c, limit: 10).map(\.id) } == [doc("a")])
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("a")) } == rev("2-ff"))
        #expect(try await store.statistics().conflictsPending == 1)
        let since = try await store.database.read { try $0.pendingConflicts(c, limit: 10).first?.since }
        #expect(since != nil)
        #expect(try await store.statistics().conflictsPendingSince == since)
        #expect(try await store.statistics().documents == 1)
        // The same after a restart.
        store.database.close()
        let again = try Database.open(folder: store.folder, name: "test")
        let found = try #require(again.collection(.default))
        let later = try #require(try await again.read { try $0.conflict(found, doc("a")) })
        #expect(later.local == conflict.local && later.remote == conflict.remote && later.base == conflict.base)
    }

    @Test(arguments: ["2-00", "2-ff"])
    func remoteWins(_ theirs: String) async throws {
        let store = try Store()
        _ = try await conflicted(store, theirs: theirs)
        let result = try await store.resolve("a", .remoteWins)
        #expect(result.revision == rev(theirs))
        let current = try #require(try await store.get("a"))
        #expect(current.revision == rev(theirs) && !current.hasConflict)
        #expect(text(current.body) == #"{"theirs":1}"#)
        #expect(try await store.conflict("a") == nil)
        #expect(try await store.statistics().conflictsPending == 0)
        #expect(try await store.statistics().conflictsPendingSince == nil)
    }

    @Test(arguments: ["2-00", "2-ff"])
    func otherResultsAreChildrenOfTheRemoteRevision(_ theirs: String) async throws {
        for (resolution, body, deleted) in [
            (Resolution.localWins, #"{"mine":1}"#, false), (.merged(Array(#"{"both":1}"#.utf8)), #"{"both":1}"#, false),
            (.delete, "{}", true),
        ] {
            let store = try Store()
            _ = try await conflicted(store, theirs: theirs)
            let result = try await store.resolve("a", resolution)
            let current = try #require(try await store.get("a"))
            #expect(current.revision == result.revision)
            #expect(current.sequence == result.sequence)
            #expect(text(current.body) == body)
            #expect(current.isDeleted == deleted)
            #expect(!current.hasConflict)
            let c = try store.c
            let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
            #expect(tree.parent(of: result.revision) == rev(theirs))
            #expect(tree.leaves.count == 1)
            // It pushes as an ordinary update of what the remote has.
            let remote = try await store.remote()
            let row = try #require(try await store.database.read { try $0.changes(c, since: 0, limit: 1, includeBodies: false, remote: remote) }.first)
            #expect(row.remoteRevision == rev(theirs))
            #expect(try row.history(limit: 5, downTo: row.remoteRevision) == [rev(theirs)])
        }
    }

    /// A resolver that returns the peer's document hands on what its REST interface gave it, even where no blob can be meant.
    @Test(arguments: [#"{"p":{"data":"aGk="}}"#, #"{"p":{"digest":"sha1-no","stub":true}}"#])
    func aMergeMayKeepThePeersAttachments(_ attachments: String) async throws {
        for isTheirs in [true, false] {
            let store = try Store()
            let remote = try await store.remote()
            let odd = #"{"_attachments":\#(attachments),"n":1}"#
            _ = try await store.insert("a", "1-aa", body: isTheirs ? "{}" : odd, remote: remote)
            _ = try await store.save("a", #"{"mine":1}"#, parent: rev("1-aa"))
            _ = try await store.insert("a", "2-ff", ["1-aa"], body: isTheirs ? odd : "{}", remote: remote)
            let merged = Resolution.merged(Array(#"{"_attachments":\#(attachments),"both":1}"#.utf8))
            if isTheirs {
                _ = try await store.resolve("a", merged)
                #expect(try await text(store.get("a")?.body) == #"{"_attachments":\#(attachments),"both":1}"#)
                #expect(try await store.conflict("a") == nil)
            } else {
                // Neither side has them: the resolver made them up.
                await #expect(throws: StoreError.self) { try await store.resolve("a", merged) }
                #expect(try await store.conflict("a") != nil)
            }
        }
    }

    @Test func deletedThereEditedHere() async throws {
        let store = try Store()
        let (_, mine, outcome) = try await conflicted(store, deleted: true)
        // The live side stays readable, but it is a conflict.
        #expect(outcome == .insertedConflict(local: mine.revision, remote: rev("2-ff"), sequence: 3))
        #expect(try await store.get("a")?.revision == mine.revision)
        #expect(try await store.conflict("a")?.remote.isDeleted == true)
        let result = try await store.resolve("a", .localWins)
        #expect(result.revision.generation == 3)
        #expect(try await text(store.get("a")?.body) == #"{"mine":1}"#)
    }

    @Test func deletedHereEditedThere() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-aa", remote: remote)
        _ = try await store.save("a", "", deleted: true, parent: rev("1-aa"))
        _ = try await store.insert("a", "2-ff", ["1-aa"], body: #"{"theirs":1}"#, remote: remote)
        #expect(try await store.conflict("a")?.local.isDeleted == true)
        _ = try await store.resolve("a", .localWins)
        #expect(try await store.get("a")?.isDeleted == true)
        #expect(try await store.statistics().deleted == 1)
        #expect(try await store.statistics().documents == 0)
    }

    @Test("What the remote gave up while the conflict waits is no longer a branch; what another remote has is")
    func remoteLeavesItsBranch() async throws {
        for isAnothers in [false, true] {
            let store = try Store()
            let c = try store.c
            let (remote, mine, _) = try await conflicted(store)
            if isAnothers {
                _ = try await store.insert("a", "2-ff", ["1-aa"], body: #"{"theirs":1}"#, remote: try await store.remote("another"))
            }
            _ = try await store.insert("a", "3-ee", ["2-ee", "1-aa"], body: #"{"theirs":2}"#, remote: remote)
            let conflict = try #require(try await store.conflict("a"))
            #expect(conflict.local.revision == mine.revision && conflict.remote.revision == rev("3-ee"))
            let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
            #expect(tree.contains(rev("2-ff")) == isAnothers)
            _ = try await store.resolve("a", .remoteWins)
            #expect(try await store.get("a")?.hasConflict == isAnothers)
        }
    }

    @Test("Each change of the leaves moves the document in the feed, and nothing else does")
    func leavesAreNews() async throws {
        let store = try Store()
        let c = try store.c
        let (remote, mine, _) = try await conflicted(store, theirs: "2-00")
        #expect(try await store.get("a")?.revision == mine.revision)
        #expect(try await store.get("a")?.sequence == mine.sequence + 1)
        // The same once more.
        _ = try await store.insert("a", "2-00", ["1-aa"], body: #"{"theirs":1}"#, remote: remote)
        #expect(try await store.get("a")?.sequence == mine.sequence + 1)
        // The other branch grows, and ends: peers that keep all leaves hear of it.
        _ = try await store.insert("a", "3-00", ["2-00", "1-aa"], body: "{}", deleted: true, remote: remote)
        #expect(try await store.get("a")?.sequence == mine.sequence + 2)
        let rows = try await store.database.read { try $0.changes(c, since: mine.sequence, limit: 9, includeBodies: true) }
        #expect(rows.map(\.revision) == [mine.revision] && text(rows.first?.body) == #"{"mine":1}"#)
        #expect(try await store.statistics().lastSequence == mine.sequence + 2)
        #expect(try await store.statistics().documents == 1)
    }

    @Test func deletedOnBothSidesIsNoConflict() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-aa", remote: remote)
        _ = try await store.save("a", "", deleted: true, parent: rev("1-aa"))
        #expect(try await store.insert("a", "2-00", ["1-aa"], deleted: true, remote: remote) == .inserted(sequence: 3))
        #expect(try await store.get("a")?.revision == rev("2-00"))
        #expect(try await store.get("a")?.hasConflict == false)
    }

    @Test func resolutionComesTooLate() async throws {
        let store = try Store()
        let (remote, mine, _) = try await conflicted(store, theirs: "2-00")
        let c = try store.c
        let edited = try await store.save("a", #"{"mine":2}"#, parent: mine.revision)
        await #expect(throws: StoreError.conflictMoved(id: doc("a"), local: edited.revision, remote: rev("2-00"))) {
            try await store.database.write {
                try $0.resolveConflict(c, id: doc("a"), expectedLocal: mine.revision, expectedRemote: rev("2-00"), resolution: .remoteWins)
            }
        }
        #expect(try await text(store.conflict("a")?.local.body) == #"{"mine":2}"#)
        // The other side moves as well.
        let outcome = try await store.insert("a", "3-00", ["2-00", "1-aa"], body: #"{"theirs":2}"#, remote: remote)
        #expect(outcome == .insertedConflict(local: edited.revision, remote: rev("3-00"), sequence: edited.sequence + 1))
        #expect(try await store.conflict("a")?.base?.revision == rev("1-aa"))
        _ = try await store.resolve("a", .remoteWins)
        #expect(try await store.get("a")?.revision == rev("3-00"))
        await #expect(throws: StoreError.self) {
            try await store.database.write {
                try $0.resolveConflict(c, id: doc("a"), expectedLocal: mine.revision, expectedRemote: rev("3-00"), resolution: .delete)
            }
        }
    }

    @Test func editDuringAConflictGrowsTheLocalSide() async throws {
        let remoteStore = try Store()
        let remote = try await remoteStore.remote()
        _ = try await remoteStore.insert("a", "1-aa", body: #"{"base":1}"#, remote: remote)
        let local = try await remoteStore.save("a", #"{"mine":1}"#, parent: rev("1-aa"))
        _ = try await remoteStore.insert("a", "3-ff", ["2-ff", "1-aa"], body: #"{"theirs":1}"#, remote: remote)
        #expect(try await remoteStore.get("a")?.revision == local.revision)
        let edit = try await remoteStore.save("a", #"{"mine":2}"#, parent: local.revision)
        let conflict = try #require(try await remoteStore.conflict("a"))
        #expect(conflict.local.revision == edit.revision)
        #expect(conflict.remote.revision == rev("3-ff"))
        let result = try await remoteStore.resolve("a", .merged(Array(#"{"all":1}"#.utf8)))
        #expect(result.revision.generation == 4)
    }

    @Test func remoteThatTookOurRevisionEndsTheConflict() async throws {
        let store = try Store()
        let (remote, mine, _) = try await conflicted(store, theirs: "2-00")
        let next = RevisionDigest.revision(parent: mine.revision, deleted: false, canonicalBody: Array("{}".utf8))
        let outcome = try await store.insert("a", next.text, [mine.revision.text, "1-aa"], remote: remote)
        guard case .inserted = outcome else { return #expect(Bool(false), "\(outcome)") }
        #expect(try await store.get("a")?.hasConflict == false)
        #expect(try await store.conflict("a") == nil)
    }

    @Test func failuresOfResolversAreRemembered() async throws {
        let store = try Store()
        _ = try await conflicted(store)
        let c = try store.c
        let long = String(repeating: "é", count: 3000)
        try await store.database.write {
            try $0.setPendingConflict(c, doc("a"), error: "boom", plugin: "merge", version: "v1")
            try $0.setPendingConflict(c, doc("a"), error: long, plugin: "merge", version: "v2")
        }
        let pending = try #require(try await store.database.read { try $0.pendingConflicts(c, limit: 10) }.first)
        #expect(pending.tries == 2 && pending.version == "v2" && pending.plugin == "merge")
        #expect(pending.error.utf8.count == StoreLimits.maxErrorTextBytes)
        #expect(pending.since > 0)
        _ = try await store.resolve("a", .remoteWins)
        #expect(try await store.database.read { try $0.pendingConflicts(c, limit: 10) } == [])
    }

    @Test func severalRemotesAreResolvedOneAfterTheOther() async throws {
        let store = try Store()
        let one = try await store.remote("one"), two = try await store.remote("two")
        _ = try await store.save("a", #"{"n":0}"#)
        _ = try await store.insert("a", "1-11", body: #"{"n":1}"#, remote: one)
        _ = try await store.insert("a", "1-22", body: #"{"n":2}"#, remote: two)
        var rounds = 0
        while try await store.conflict("a") != nil {
            _ = try await store.resolve("a", .merged(Array("{\"round\":\(rounds)}".utf8)))
            rounds += 1
            try #require(rounds < 5)
        }
        #expect(rounds == 2)
        let c = try store.c
        #expect(try await store.database.read { try $0.tree(c, doc("a"))?.leaves.count } == 1)
        #expect(try await store.get("a")?.hasConflict == false)
    }

    @Test func branchesAreLimited() async throws {
        let store = try Store()
        for n in 10..<10 + StoreLimits.maxBranches { _ = try await store.insert("a", "1-\(n)") }
        await #expect(throws: StoreError.tooManyBranches(id: doc("a"), limit: StoreLimits.maxBranches)) {
            try await store.insert("a", "1-99")
        }
    }
}
