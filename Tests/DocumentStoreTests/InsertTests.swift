import DocumentStore
import Documents
import Testing

@Suite struct InsertTests {
    @Test func insertingTwiceChangesNothing() async throws {
        let store = try Store()
        let remote = try await store.remote()
        #expect(try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":2}"#, remote: remote) == .inserted(sequence: 1))
        #expect(try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":2}"#, remote: remote) == .alreadyPresent)
        #expect(try await store.insert("a", "1-aa", body: #"{"n":1}"#) == .alreadyPresent)
        #expect(try await store.insert("a", "1-aa", body: #"{"n":1}"#, .refuse) == .alreadyPresent)
        #expect(try await store.get("a")?.sequence == 1)
        let c = try store.c
        #expect(try await store.database.read { try $0.remoteRevision(remote, c, doc("a")) } == rev("2-bb"))
        #expect(try await store.database.read { try $0.lastSequence(c) } == 1)
    }

    @Test func descendantBecomesCurrent() async throws {
        let store = try Store()
        _ = try await store.insert("a", "1-aa", body: #"{"n":1}"#)
        #expect(try await store.insert("a", "3-cc", ["2-bb", "1-aa"], body: #"{"n":3}"#, .refuse) == .inserted(sequence: 2))
        #expect(try await text(store.get("a")?.body) == #"{"n":3}"#)
        #expect(try await store.insert("a", "4-dd", ["3-cc"], deleted: true, .refuse) == .inserted(sequence: 3))
        #expect(try await store.get("a")?.isDeleted == true)
        #expect(try await store.statistics().deleted == 1)
    }

    @Test func passiveSideRefusesWhatDoesNotDescend() async throws {
        let store = try Store()
        _ = try await store.insert("a", "2-bb", ["1-aa"])
        #expect(try await store.insert("a", "2-cc", ["1-aa"], .refuse) == .conflict(current: rev("2-bb")))
        #expect(try await store.insert("a", "9-cc", ["8-aa", "7-aa"], .refuse) == .conflict(current: rev("2-bb")))
        #expect(try await store.get("a")?.hasConflict == false)
        let c = try store.c
        #expect(try await store.database.read { try $0.tree(c, doc("a"))?.count } == 2)
    }

    @Test func tombstoneMakesRoomForAnUnrelatedDocument() async throws {
        let store = try Store()
        _ = try await store.insert("a", "2-bb", ["1-aa"], deleted: true)
        // A live sibling of the tombstone is a conflict …
        #expect(try await store.insert("a", "2-cc", ["1-aa"], .refuse) == .conflict(current: rev("2-bb")))
        // … a document without common history is a new one.
        #expect(try await store.insert("a", "1-dd", body: #"{"new":true}"#, .refuse) == .inserted(sequence: 2))
        #expect(try await store.get("a")?.revision == rev("1-dd"))
        #expect(try await store.get("a")?.hasConflict == false)
        #expect(try await store.insert("a", "2-dd", ["1-dd"], .refuse) == .inserted(sequence: 3))
        #expect(try await store.statistics().documents == 1)
    }

    /// Its sender keeps fewer revisions, one of them for us.
    @Test func aHistoryWithAGapLeadsToWhatIsHere() async throws {
        let store = try Store()
        _ = try await store.insert("a", "1-aa")
        #expect(try await store.insert("a", "5-ee", ["4-dd", "1-aa"], .refuse) == .inserted(sequence: 2))
        #expect(try await store.get("a")?.revision == rev("5-ee"))
    }

    @Test func brokenHistoryIsRefused() async throws {
        let store = try Store()
        _ = try await store.insert("a", "1-aa")
        let error = await #expect(throws: StoreError.self) { try await store.insert("a", "5-ee", ["7-cc", "1-aa"]) }
        guard case .historyInvalid(let id, let revision, _)? = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(id == doc("a") && revision == rev("5-ee"))
        await #expect(throws: StoreError.self) { try await store.insert("b", "5-ee", ["5-cc"]) }
        #expect(try await store.get("b") == nil)
        let long = (1...2000).reversed().map { "\($0)-aa" }
        await #expect(throws: StoreError.self) { try await store.insert("c", "2001-aa", long) }
    }

    @Test func peersBodiesAreChecked() async throws {
        let store = try Store()
        await #expect(throws: StoreError.self) { try await store.insert("a", "1-aa", body: "[1]") }
        await #expect(throws: StoreError.reservedKey(id: doc("a"), key: "_rev")) {
            try await store.insert("a", "1-aa", body: #"{"_attachments":{},"_rev":"1-aa"}"#)
        }
        #expect(try await store.insert("a", "1-aa", body: #"{"_attachments":{"x":{"digest":"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="}}}"#)
            == .inserted(sequence: 1))
        #expect(try await store.get("a")?.hasBlobs == true)
    }

    @Test func remoteThatSwitchedBranchesIsFollowed() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "2-aa", ["1-aa"], body: #"{"n":1}"#, remote: remote)
        // Not an edit of ours, so no conflict.
        #expect(try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":2}"#, remote: remote) == .inserted(sequence: 2))
        #expect(try await store.get("a")?.revision == rev("2-bb"))
        #expect(try await store.get("a")?.hasConflict == false)
        let c = try store.c
        #expect(try await store.database.read { try $0.tree(c, doc("a"))?.leaves.count } == 1)
    }

    /// It deleted what it had with us, and somebody who never had the document had brought another beginning: not an edit of ours either. Peers
    /// that keep every branch would go on reading the greater one, so to them it ends.
    @Test(arguments: [false, true]) func remoteThatSwitchedDownwardsIsFollowed(_ hasBranchKeepers: Bool) async throws {
        let store = try Store()
        let remote = try await store.remote()
        if hasBranchKeepers { await store.database.noteBranchKeeper() }
        _ = try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote)
        #expect(try await store.insert("a", "1-aa", body: #"{"n":2}"#, remote: remote) == .inserted(sequence: 2))
        let current = try #require(try await store.get("a"))
        #expect(current.revision == rev("1-aa") && !current.hasConflict && text(current.body) == #"{"n":2}"#)
        let c = try store.c
        let leaves = try await store.database.read { try $0.tree(c, doc("a"))?.leaves } ?? []
        #expect(leaves.filter { !$0.isDeleted }.map(\.revision) == [rev("1-aa")])
        #expect(leaves.count == (hasBranchKeepers ? 2 : 1))
    }

    /// In a ring of agents, where each follows the next, two revisions could else chase each other for ever.
    @Test func aRevisionIsLeftForALesserOneOnce() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote)
        #expect(try await store.insert("a", "1-aa", body: #"{"n":2}"#, remote: remote) == .inserted(sequence: 2))
        #expect(try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote) == .inserted(sequence: 3))
        store.database.close()
        let again = try Store(folder: store.folder)
        let outcome = try await again.insert("a", "1-aa", body: #"{"n":2}"#, remote: remote)
        #expect(outcome == .insertedConflict(local: rev("1-bb"), remote: rev("1-aa"), sequence: 4))
        // Another one is left for it all the same.
        _ = try await again.resolve("a", .remoteWins)
        #expect(try await again.insert("a", "1-cc", body: #"{"n":3}"#, remote: remote) == .inserted(sequence: 6))
        #expect(try await again.insert("a", "1-aa", body: #"{"n":2}"#, remote: remote) == .inserted(sequence: 7))
    }

    @Test func anEditIsNotGivenUpForWhatTheRemoteSwitchedTo() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote)
        let edit = try await store.save("a", #"{"n":3}"#, parent: rev("1-bb"))
        let outcome = try await store.insert("a", "1-aa", body: #"{"n":2}"#, remote: remote)
        #expect(outcome == .insertedConflict(local: edit.revision, remote: rev("1-aa"), sequence: 3))
        #expect(try await store.get("a")?.revision == edit.revision)
    }

    /// As where a filter took long over it, while the remote decided, and its decision came another way.
    @Test(arguments: [PeerRevision.none, .had(rev("1-aa")), .unknown, .had(rev("2-aa"))])
    func whatTheRemoteLeftWhileItWasOnItsWayIsNotStored(_ peerHad: PeerRevision) async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "2-aa", ["1-aa"], body: #"{"n":1}"#, remote: remote)
        let outcome = try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":2}"#, remote: remote, peerHad: peerHad)
        switch peerHad {
        case .had(rev("2-aa")): #expect(outcome == .inserted(sequence: 2))
        case .unknown: #expect(outcome == .insertedConflict(local: rev("2-aa"), remote: rev("2-bb"), sequence: 2))
        default:
            #expect(outcome == .alreadyPresent)
            #expect(try await store.get("a")?.revision == rev("2-aa"))
        }
        // What descends from the current revision fits, whatever the remote had.
        if outcome == .alreadyPresent {
            #expect(try await store.insert("a", "3-cc", ["2-aa"], remote: remote, peerHad: peerHad) == .inserted(sequence: 2))
        }
    }

    /// Two revisions of the remote were offered one after the other, while a filter took long over the first: the second is newer than what
    /// is known of the remote by now, although less was known when it was offered.
    @Test func whatDescendsFromWhatTheRemoteHasIsNewsHoweverLongItTook() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-aa", remote: remote)
        _ = try await store.insert("a", "2-cc", ["1-aa"], body: #"{"n":1}"#)
        _ = try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":2}"#, remote: remote, peerHad: .had(rev("1-aa")))
        let outcome = try await store.insert("a", "3-dd", ["2-bb", "1-aa"], body: #"{"n":3}"#, remote: remote, peerHad: .had(rev("1-aa")))
        #expect(outcome == .insertedConflict(local: rev("2-cc"), remote: rev("3-dd"), sequence: 4))
    }

    /// Two revisions of the remote were under way at once: that the first is what is known of it by now does not make the second old.
    @Test func whatWasOfferedAfterTheRevisionThatTheRemoteIsKnownToHaveIsNews() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "1-aa", remote: remote)
        let had = PeerRevision.had(rev("1-aa"))
        _ = try await store.insert("a", "2-bb", ["1-aa"], body: #"{"n":1}"#, remote: remote, peerHad: had)
        // The remote's branch is followed, in either direction.
        #expect(
            try await store.insert("a", "2-cc", ["1-aa"], body: #"{"n":2}"#, remote: remote, peerHad: had, offeredBefore: ["2-bb"])
                == .inserted(sequence: 3))
        #expect(
            try await store.insert("a", "2-ab", ["1-aa"], body: #"{"n":3}"#, remote: remote, peerHad: had, offeredBefore: ["2-cc"])
                == .inserted(sequence: 4))
        #expect(try await store.insert("a", "2-ee", ["1-aa"], body: #"{"n":4}"#, remote: remote, peerHad: had) == .alreadyPresent)
    }

    /// A peer offers a deletion again that conflicts with what was created on top of it in the meantime: it has to learn of that, or it takes the
    /// document for deleted here.
    @Test func aLeafBesideTheCurrentRevisionIsNoSuccessForWhoOffersIt() async throws {
        let store = try Store()
        _ = try await store.insert("a", "2-aa", ["1-aa"], deleted: true, .refuse)
        _ = try await store.insert("a", "1-bb", body: #"{"n":1}"#, .refuse)
        #expect(try await store.insert("a", "2-aa", ["1-aa"], deleted: true, .refuse) == .conflict(current: rev("1-bb")))
        _ = try await store.insert("a", "2-bb", ["1-bb"], body: #"{"n":2}"#, .refuse)
        // An ancestor came late.
        #expect(try await store.insert("a", "1-bb", body: #"{"n":1}"#, .refuse) == .alreadyPresent)
        #expect(try await store.get("a")?.revision == rev("2-bb"))
    }

    /// What a device created on a tombstone came here by way of the remote. Then the remote deleted it too, and has the elder tombstone again.
    @Test func aRemoteThatTurnsToATombstoneThatIsHereIsFollowed() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "3-ac", ["2-aa", "1-aa"], deleted: true, remote: remote)
        #expect(try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote) == .inserted(sequence: 2))
        let c = try store.c
        let offer = RevisionOffer(id: doc("a"), revision: rev("3-ac"), isDeletion: true)
        let needs = try await store.database.read { try $0.missing(c, [offer], from: remote) }
        guard case .need(_, .had(rev("1-bb")))? = needs.first else { Issue.record("\(needs)"); return }
        // A peer that keeps every leaf offers the older one alongside the other.
        #expect(try await store.database.read { try $0.missing(c, [offer], from: remote, hasOne: false) } == [.haveEarlier])
        #expect(try await store.insert("a", "3-ac", ["2-aa", "1-aa"], deleted: true, remote: remote) == .inserted(sequence: 3))
        #expect(try await store.get("a")?.isDeleted == true)
        #expect(try await store.conflict("a") == nil)
    }

    /// An edit made here since is not given up for it, and a remote that lags behind with it brings nothing new.
    @Test func aTombstoneThatIsHereChangesNothingWhereTheRemoteDidNotHaveTheCurrentRevision() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "3-ac", ["2-aa", "1-aa"], deleted: true, remote: remote)
        _ = try await store.insert("a", "1-bb", body: #"{"n":1}"#)
        #expect(try await store.insert("a", "3-ac", ["2-aa", "1-aa"], deleted: true, remote: remote) == .alreadyPresent)
        #expect(try await store.get("a")?.revision == rev("1-bb"))
    }

    /// Somebody who never had the document created it at the remote, where it was deleted: an acknowledged write, not a conflict.
    @Test func whatWasCreatedOnASyncedTombstoneReplacesIt() async throws {
        let store = try Store()
        let remote = try await store.remote()
        _ = try await store.insert("a", "3-ac", ["2-aa", "1-aa"], deleted: true, remote: remote)
        #expect(try await store.insert("a", "1-bb", body: #"{"n":1}"#, remote: remote, peerHad: .unknown) == .inserted(sequence: 2))
        #expect(try await store.get("a")?.isDeleted == false)
        // A deletion made here, which the remote has not seen, is a decision for somebody.
        _ = try await store.insert("b", "1-aa", remote: remote)
        _ = try await store.save("b", "{}", deleted: true, parent: rev("1-aa"))
        guard case .insertedConflict = try await store.insert("b", "1-bb", body: #"{"n":1}"#, remote: remote) else {
            Issue.record("no conflict")
            return
        }
    }

    /// By clients that keep every leaf, by a peer without a name, and by remotes that have one revision of each document.
    @Test(arguments: [false, true], ["1-dd", "2-aa", "2-cc", "3-ee"])
    func aDeletionIsNotForgottenForAnother(_ isRemote: Bool, _ second: String) async throws {
        let store = try Store()
        let remote = isRemote ? try await store.remote() : nil
        _ = try await store.insert("a", "1-00", body: #"{"n":1}"#)
        _ = try await store.insert("a", "2-bb", ["1-00"], deleted: true)
        let histories: [String: [String]] = ["1-dd": [], "3-ee": ["2-ee", "1-ee"]]
        let history = histories[second] ?? ["1-00"]
        _ = try await store.insert("a", second, history, deleted: true, remote: remote)
        // What the remote has is ours; else the greater is read.
        #expect(try await store.get("a")?.revision == (isRemote ? rev(second) : max(rev("2-bb"), rev(second))))
        let c = try store.c
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
        #expect(["1-00", "2-bb", second].allSatisfy { tree.contains(rev($0)) })
        // A peer that has not heard of the deletion brings the document back.
        for conflicts in [ConflictHandling.refuse, .store, .storePushed] {
            _ = try await store.insert("a", "1-00", body: #"{"n":1}"#, conflicts)
            #expect(try await store.get("a")?.isDeleted == true)
        }
        #expect(try await store.insert("a", "1-00", body: #"{"n":1}"#, remote: store.remote("wss://other/db")) == .alreadyPresent)
        #expect(try await store.get("a")?.hasConflict == false)
        #expect(try await store.statistics().documents == 0)
    }

    @Test(arguments: [false, true], ["2-aa", "2-bb"])
    func whatGoesOnFromEitherDeletionIsNoConflict(_ isRemote: Bool, _ parent: String) async throws {
        let store = try Store()
        let remote = isRemote ? try await store.remote() : nil
        _ = try await store.insert("a", "1-00", body: #"{"n":1}"#)
        _ = try await store.insert("a", "2-bb", ["1-00"], deleted: true)
        _ = try await store.insert("a", "2-aa", ["1-00"], deleted: true, remote: remote)
        _ = try await store.insert("a", "3-cc", [parent, "1-00"], body: #"{"n":3}"#)
        let found = try await store.get("a")
        #expect(found?.revision == rev("3-cc") && found?.hasConflict == false && found?.isDeleted == false)
    }

    /// From a peer that pushes, on the tombstone that our remote does not have: it is moved to the other one when that remote refuses it.
    @Test(arguments: [false, true])
    func whatGoesOnFromADeletionThatTheRemoteDoesNotHaveIsNoConflict(_ isRemote: Bool) async throws {
        let store = try Store()
        let remote = isRemote ? try await store.remote() : nil
        _ = try await store.insert("a", "1-00", body: #"{"n":1}"#)
        _ = try await store.insert("a", "2-bb", ["1-00"], deleted: true)
        _ = try await store.insert("a", "2-aa", ["1-00"], deleted: true, remote: remote)
        #expect(try await store.get("a")?.revision == rev(isRemote ? "2-aa" : "2-bb"))
        let other = isRemote ? "2-bb" : "2-aa"
        #expect(try await store.insert("a", "3-cc", [other, "1-00"], body: #"{"n":3}"#, .refuse) == .inserted(sequence: 4))
    }

    /// The remote takes it for a new document.
    @Test func whatGoesOnFromADeletionOfAnotherHistoryIsNoConflict() async throws {
        let store = try Store()
        _ = try await store.insert("a", "2-bb", ["1-bb"], deleted: true)
        _ = try await store.insert("a", "2-aa", ["1-aa"], deleted: true, remote: try await store.remote())
        #expect(try await store.get("a")?.revision == rev("2-aa"))
        #expect(try await store.insert("a", "3-cc", ["2-bb", "1-bb"], body: #"{"n":3}"#, .refuse) == .inserted(sequence: 3))
        let remote = try Store()
        _ = try await remote.insert("a", "2-aa", ["1-aa"], deleted: true)
        #expect(try await remote.insert("a", "3-cc", ["2-bb", "1-bb"], body: #"{"n":3}"#, .refuse) == .inserted(sequence: 2))
    }

    /// It makes no difference then which tombstone is current, and whatever comes after either of them is welcome.
    @Test func aConflictWhoseSidesAreBothDeletedIsOver() async throws {
        let store = try Store()
        _ = try await store.insert("a", "2-aa", ["1-00"], deleted: true)
        guard case .insertedConflict = try await store.insert("a", "2-bb", ["1-00"], body: #"{"n":2}"#, .storePushed) else { return #expect(Bool(false)) }
        _ = try await store.insert("a", "3-bb", ["2-bb", "1-00"], deleted: true, .storePushed)
        #expect(try await store.conflict("a") == nil)
        guard case .inserted = try await store.insert("a", "3-cc", ["2-aa", "1-00"], body: #"{"n":3}"#, .refuse) else { return #expect(Bool(false)) }
        #expect(try await store.get("a")?.revision == rev("3-cc"))
    }

    @Test func deletionsAreNoReasonToRefuseWhatComes() async throws {
        let store = try Store()
        for number in 10..<60 { _ = try await store.insert("a", "2-\(number)", ["1-\(number)"], deleted: true) }
        _ = try await store.insert("a", "1-00", body: #"{"n":1}"#, .refuse)
        let c = try store.c
        let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
        #expect(tree.winner?.revision == rev("1-00") && tree.leaves.count == StoreLimits.maxBranches)
        #expect(tree.contains(rev("2-59")) && !tree.contains(rev("2-10")))
    }

    /// The tombstone's history was shortened here, and a peer that had not heard of it created the document anew.
    @Test(arguments: [ConflictHandling.refuse, .store, .storePushed]) func whatBroughtBackAForgottenAncestorGivesWayToItsSuccessor(_ conflicts: ConflictHandling) async throws {
        let store = try Store()
        _ = try await store.insert("x", "3-cc", ["2-bb"], deleted: true)
        _ = try await store.insert("x", "1-aa", [], conflicts)
        #expect(try await store.get("x")?.revision == rev("1-aa"))
        guard case .inserted = try await store.insert("x", "3-cc", ["2-bb", "1-aa"], deleted: true, conflicts) else { Issue.record("not inserted"); return }
        let now = try #require(try await store.get("x"))
        #expect(now.revision == rev("3-cc") && now.isDeleted)
        #expect(try await store.conflict("x") == nil)
        // A revision that is new goes on, too.
        _ = try await store.insert("y", "3-cc", ["2-bb"], deleted: true)
        _ = try await store.insert("y", "1-aa", [], conflicts)
        guard case .inserted = try await store.insert("y", "4-dd", ["3-cc", "2-bb", "1-aa"], body: #"{"n":4}"#, conflicts) else { Issue.record("not inserted"); return }
        #expect(try await store.get("y")?.revision == rev("4-dd"))
        #expect(try await store.conflict("y") == nil)
    }

    @Test func failedJobDoesNotTouchOthers() async throws {
        struct Stop: Error {}
        let store = try Store()
        let c = try store.c
        await withTaskGroup(of: Void.self) { group in
            for n in 0..<200 {
                group.addTask {
                    _ = try? await store.database.write { transaction in
                        try transaction.save(c, id: doc("d\(n)"), body: [], parent: nil)
                        if n % 3 == 0 { throw Stop() }
                    }
                }
            }
        }
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 1000, includeBodies: false) }
        #expect(Set(rows.map(\.id)) == Set((0..<200).filter { $0 % 3 != 0 }.map { doc("d\($0)") }))
        #expect(try await store.statistics().documents == rows.count)
        // Without gaps: sequences of undone jobs were given back.
        #expect(rows.map(\.sequence) == Array(1...SequenceNumber(rows.count)))
    }

    @Test func transactionIsOfNoUseAfterwards() async throws {
        let store = try Store()
        let c = try store.c
        final class Keep: @unchecked Sendable { var transaction: WriteTransaction? }
        let keep = Keep()
        try await store.database.write { keep.transaction = $0 }
        #expect(throws: StoreError.transactionEnded) { try keep.transaction?.save(c, id: doc("a"), body: [], parent: nil) }
        #expect(throws: StoreError.transactionEnded) { try keep.transaction?.document(c, doc("a")) }
        #expect(throws: StoreError.transactionEnded) { try keep.transaction?.existingRemote(for: "x") }
    }
}
