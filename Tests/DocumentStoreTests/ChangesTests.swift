import DocumentStore
import Documents
import Testing

@Suite struct ChangesTests {
    @Test func onlyCurrentRevisionsInTheirOrder() async throws {
        let store = try Store()
        let c = try store.c
        let a = try await store.save("a", #"{"n":1}"#)
        _ = try await store.save("b", #"{"n":22}"#)
        let a2 = try await store.save("a", #"{"n":333}"#, parent: a.revision)
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: true) }
        #expect(rows.map(\.id) == [doc("b"), doc("a")])
        #expect(rows.map(\.sequence) == [2, 3])
        #expect(rows.map { text($0.body) } == [#"{"n":22}"#, #"{"n":333}"#])
        #expect(try rows[1].history(limit: 10) == [a.revision])
        #expect(try rows[0].history(limit: 10) == [])
        let sizes = try await store.database.read { try $0.changes(c, since: 2, limit: 10, includeBodies: false) }
        #expect(sizes.map(\.bodySize) == [9])
        #expect(sizes[0].body == nil)
        #expect(sizes[0].revision == a2.revision)
    }

    @Test func pagesAndFilters() async throws {
        let store = try Store()
        let c = try store.c
        for n in 0..<25 { _ = try await store.save("d\(n)", "{}", deleted: n % 5 == 0) }
        var seen: [SequenceNumber] = []
        var since: SequenceNumber = 0
        while true {
            let from = since
            let rows = try await store.database.read { try $0.changes(c, since: from, limit: 7, includeBodies: false) }
            guard let last = rows.last else { break }
            seen += rows.map(\.sequence)
            since = last.sequence
        }
        #expect(seen == Array(1...25))
        let live = try await store.database.read {
            try $0.changes(c, since: 0, limit: 10, includeBodies: false, includeDeleted: false)
        }
        #expect(live.count == 10)
        #expect(live.allSatisfy { !$0.isDeleted })
        let some = try await store.database.read {
            try $0.changes(c, since: 3, limit: 10, includeBodies: false, ids: [doc("d9"), doc("no"), doc("d1"), doc("d7"), doc("d9")])
        }
        #expect(some.map(\.id) == [doc("d7"), doc("d9")])
    }

    @Test func historyReachesDownToTheServersRevision() async throws {
        let store = try Store()
        let c = try store.c
        var revisions = [try await store.save("a", #"{"n":0}"#).revision]
        for n in 1..<12 { revisions.append(try await store.save("a", "{\"n\":\(n)}", parent: revisions[n - 1]).revision) }
        let row = try #require(try await store.database.read { try $0.changes(c, since: 0, limit: 1, includeBodies: false) }.first)
        #expect(try row.history(limit: 3) == [revisions[10], revisions[9], revisions[8]])
        #expect(try row.history(limit: 3, downTo: revisions[5]).last == revisions[5])
        #expect(try row.history(limit: 3, downTo: revisions[10]) == [revisions[10]])
    }

    @Test func rowsTellWhatTheRemoteHas() async throws {
        let store = try Store()
        let c = try store.c
        let one = try await store.remote("one"), two = try await store.remote("two")
        #expect(try await store.remote("one") == one)
        let a = try await store.save("a", #"{"n":1}"#)
        let b = try await store.save("b", #"{"n":1}"#)
        try await store.database.write {
            try $0.setRemoteRevisions(one, c, [(doc("a"), a.revision), (doc("b"), b.revision), (doc("absent"), b.revision)])
            try $0.setRemoteRevisions(two, c, [(doc("b"), rev("1-ab"))])
        }
        let b2 = try await store.save("b", #"{"n":2}"#, parent: b.revision)
        #expect(try await store.database.read { try $0.remoteRevision(one, c, doc("b")) } == b.revision)
        #expect(try await store.database.read { try $0.remoteRevision(one, c, doc("x")) } == nil)
        #expect(try await store.database.read { try $0.remoteRevision(two, c, doc("b")) } == rev("1-ab"))
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 10, includeBodies: false, remote: one) }
        #expect(rows.map(\.remoteRevision) == [a.revision, b.revision])
        #expect(rows.map(\.revision) == [a.revision, b2.revision])
    }

    @Test func signalTellsTheNewestCommit() async throws {
        let store = try Store()
        _ = try await store.save("a", "{}")
        var signal = store.database.changeSignal(try store.c).makeAsyncIterator()
        #expect(await signal.next() == 1)
        _ = try await store.save("b", "{}")
        _ = try await store.save("c", "{}")
        #expect(await signal.next() == 3)
        // A write without documents is no news.
        _ = try await store.remote()
        _ = try await store.save("d", "{}")
        #expect(await signal.next() == 4)
        store.database.close()
        #expect(await signal.next() == nil)
    }

    @Test func offersOfAPeer() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.insert("a", "3-cc", ["2-bb", "1-aa"])
        _ = try await store.insert("b", "1-aa")
        let needs = try await store.database.read {
            try $0.missing(c, [
                RevisionOffer(id: doc("a"), revision: rev("3-cc")), RevisionOffer(id: doc("a"), revision: rev("2-bb")), RevisionOffer(id: doc("a"), revision: rev("4-dd")), RevisionOffer(id: doc("a"), revision: rev("3-cd")),
                RevisionOffer(id: doc("a"), revision: rev("1-99")), RevisionOffer(id: doc("b"), revision: rev("2-bb")), RevisionOffer(id: doc("b"), revision: rev("1-aa")), RevisionOffer(id: doc("new"), revision: rev("1-aa")),
            ])
        }
        #expect(needs == [
            .have, .haveEarlier, .need(ancestors: [rev("3-cc"), rev("2-bb"), rev("1-aa")]),
            .need(ancestors: [rev("2-bb"), rev("1-aa")]), .need(ancestors: []), .need(ancestors: [rev("1-aa")]), .have,
            .need(ancestors: []),
        ])
        let few = try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("a"), revision: rev("9-99"))], maxAncestors: 2) }
        #expect(few == [.need(ancestors: [rev("3-cc"), rev("2-bb")])])
    }

    /// What a decision dropped may be what the peer went on with; what was pruned is an ancestor that nobody needs again.
    @Test func aDroppedBranchIsWantedAgainAndAPrunedAncestorIsNot() async throws {
        let store = try Store()
        let c = try store.c
        let remote = try await store.remote()
        _ = try await store.insert("a", "3-cc", ["2-bb"])
        _ = try await store.insert("b", "2-bb")
        try await store.database.write { transaction in
            for (id, known) in [("a", "1-aa"), ("b", "1-aa")] {
                try transaction.setRemoteRevisions(remote, c, [(doc(id), rev(known))])
            }
        }
        func needs() async throws -> [RevisionNeed] {
            try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("a"), revision: rev("1-aa")), RevisionOffer(id: doc("b"), revision: rev("1-aa"))]) }
        }
        #expect(try await needs() == [.haveEarlier, .haveEarlier])
        try await store.database.write { transaction in
            for id in ["a", "b"] { try transaction.setRemoteRevisions(remote, c, [(doc(id), rev("2-00"))]) }
        }
        let dropped = try await store.database.read { try $0.missing(c, [RevisionOffer(id: doc("a"), revision: rev("2-00")), RevisionOffer(id: doc("b"), revision: rev("2-00"))]) }
        #expect(dropped == [.need(ancestors: []), .need(ancestors: [])])
    }

    @Test func proposalsOfAPeer() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.insert("a", "2-bb", ["1-aa"])
        _ = try await store.insert("gone", "2-bb", ["1-aa"], deleted: true)
        let verdicts = try await store.database.read {
            try $0.checkProposals(c, [
                Proposal(id: doc("a"), revision: rev("2-bb"), parent: nil),
                Proposal(id: doc("a"), revision: rev("3-cc"), parent: rev("2-bb")),
                Proposal(id: doc("a"), revision: rev("3-cc"), parent: rev("1-aa")),
                Proposal(id: doc("a"), revision: rev("1-cc"), parent: nil),
                Proposal(id: doc("gone"), revision: rev("1-cc"), parent: nil),
                Proposal(id: doc("gone"), revision: rev("3-cc"), parent: rev("1-aa")),
                Proposal(id: doc("new"), revision: rev("1-cc"), parent: nil),
            ])
        }
        #expect(verdicts == [
            .have, .accept, .conflict(current: rev("2-bb")), .conflict(current: rev("2-bb")), .accept,
            .conflict(current: rev("2-bb")), .accept,
        ])
    }

    /// What a peer made while the deletion of a document of that name is on its way to it.
    @Test func whatMissesADeletionIsAConflictWithIt() async throws {
        let store = try Store()
        let c = try store.c
        _ = try await store.insert("x", "2-bb", ["1-aa"], deleted: true)
        var late = Proposal(id: doc("x"), revision: rev("1-cc"), parent: nil)
        late.missesDeletion = true
        let verdicts = try await store.database.read { [late] in try $0.checkProposals(c, [late, Proposal(id: doc("x"), revision: rev("1-cc"), parent: nil)]) }
        #expect(verdicts == [.conflict(current: rev("2-bb")), .accept])
        var revision = IncomingRevision(id: doc("x"), revision: rev("1-cc"), history: RevisionHistory(), body: Array("{}".utf8))
        revision.missesDeletion = true
        let outcome = try await store.database.write { [revision] in try $0.insert(revision, into: c, conflicts: .refuse) }
        #expect(outcome == .conflict(current: rev("2-bb")))
    }
}
