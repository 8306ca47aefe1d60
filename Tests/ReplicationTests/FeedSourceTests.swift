import Documents
import DocumentStore
import Testing

@testable import Replication

/// The history that a push sends with a document that changes faster than the peer acknowledges it.
@Suite struct FeedSourceTests {
    private func source(_ database: TestDatabase, saves: Int) async throws -> (FeedSource, [RevisionID]) {
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        var revisions: [RevisionID] = []
        for n in 1...saves {
            revisions.append(try await database.put("x", "{\"n\":\(n)}"))
            if n == 1 { source.remote = try await acknowledge(database, revisions[0]) }
        }
        return (source, revisions)
    }

    @discardableResult
    private func acknowledge(_ database: TestDatabase, _ revision: RevisionID) async throws -> RemoteID {
        let collection = try database.collection()
        return try await database.database.write { transaction in
            let remote = try transaction.remoteID(for: "peer")
            try transaction.setRemoteRevisions(remote, collection, [(doc("x"), revision)])
            return remote
        }
    }

    @Test func theHistoryEndsAtAnAcknowledgedRevisionEvenIfItWasPruned() async throws {
        let database = try TestDatabase { $0.historyDepth = 5 }
        let (source, revisions) = try await source(database, saves: 20)
        // The acknowledged revision stays in the history, since the store knows that the peer has it.
        try await acknowledge(database, revisions[7])
        let page = try await database.database.read { try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20) }
        let document = try #require(page.documents.first)
        #expect(document.version == revisions[19])
        #expect(document.history == revisions[15...18].reversed() + [revisions[7]])
    }

    @Test func aBranchOfThePeerIsNotAnAncestor() async throws {
        let database = try TestDatabase { $0.historyDepth = 5 }
        let (source, revisions) = try await source(database, saves: 20)
        try await acknowledge(database, rev("18-0123456789abcdef0123456789abcdef01234567"))
        let page = try await database.database.read { try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20) }
        #expect(page.documents.first?.history.contains { $0.text.hasPrefix("18-0123") } == false)
        #expect(page.documents.first?.history.first == revisions[18])
    }

    @Test func aDocumentOfWhichOnlyEndsAreLeftIsToldToNobody() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        try await database.insert("x", "1-aa")
        var end = IncomingRevision(
            id: doc("x"), revision: RevisionTree.end(of: rev("1-aa")), history: RevisionHistory([rev("1-aa")]), isDeleted: true, body: [])
        end.deletion = .leaf
        _ = try await database.database.write { [source, end] in try $0.insert(end, into: source.collection, conflicts: .refuse) }
        #expect(try await database.get("x")?.isDeleted == true)
        let page = try await database.database.read { try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20) }
        #expect(page.documents.isEmpty && page.next.sequence > 0)
    }

    /// A peer that pulls for the first time is spared the old deletions. A later one may be that of a document that it was sent.
    @Test func aDeletionDuringTheFirstPullIsTold() async throws {
        let database = try TestDatabase()
        try await database.insert("old", "2-ab", ["1-aa"], deleted: true)
        try await database.insert("x", "1-aa")
        var source = FeedSource(collection: try database.collection(), skipsConflicts: false, activeOnlyThrough: nil)
        let first = try await database.database.read { [source] in
            try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: true, historyLimit: 20)
        }
        #expect(first.documents.map(\.id) == [doc("x")])
        source.activeOnlyThrough = first.newest
        try await database.insert("x", "2-bb", ["1-aa"], deleted: true)
        let second = try await database.database.read { [source] in
            try source.read($0, from: first.next, limit: 10, isBacklog: true, historyLimit: 20)
        }
        #expect(second.documents.map(\.version) == [rev("2-bb")])
    }

    @Test func anOfferKnowsTheEndOfThePeersBranch() async throws {
        let database = try TestDatabase()
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        let collection = source.collection
        // Both branches have been deleted. The peer has the one that does not win, at a revision before the deletion.
        for (revision, history) in [("2-bb", ["1-bb"]), ("1-aa", []), ("2-aa", ["1-aa"])] {
            let incoming = IncomingRevision(
                id: doc("x"), revision: rev(revision), history: RevisionHistory(history.map(rev)), isDeleted: revision.hasPrefix("2"), body: [])
            _ = try await database.database.write { try $0.insert(incoming, into: collection, conflicts: .refuse) }
        }
        source.remote = try await acknowledge(database, rev("1-aa"))
        let page = try await database.database.read { [source] in
            try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20)
        }
        let document = try #require(page.documents.first)
        #expect(document.version == rev("2-bb") && document.peerBranchEnd?.version == rev("2-aa") && document.peerBranchEnd?.history == [rev("1-aa")])

        // Once the peer has reached our current revision, in whichever way, the end of the branch that it left no longer matters to it.
        let compared = try await database.database.read { [source] in try source.compare($0, doc("x"), rev("2-aa"), with: rev("2-bb")) }
        guard case .same(rev("2-bb")) = compared else { Issue.record("\(compared)"); return }
    }

    @Test("a peer that has what a deletion ended, which was given up here for another deletion, is told of that one")
    func anOfferKnowsTheDeletionThatWasGivenUp() async throws {
        let database = try TestDatabase()
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        source.remote = try await database.database.write { try $0.remoteID(for: "peer") }
        try await database.insert("x", "1-bb", [])
        try await database.insert("x", "2-bb", ["1-bb"], deleted: true)
        var theirs = IncomingRevision(id: doc("x"), revision: rev("2-aa"), history: RevisionHistory([rev("1-aa")]), isDeleted: true, body: [], remote: source.remote)
        theirs.peerHad = .none
        _ = try await database.database.write { [source, theirs] in try $0.insert(theirs, into: source.collection, conflicts: .store) }
        #expect(try await database.get("x")?.revision == rev("2-aa"))
        source.remote = try await acknowledge(database, rev("1-bb"))
        let page = try await database.database.read { [source] in
            try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20)
        }
        let document = try #require(page.documents.first)
        #expect(document.version == rev("2-aa") && document.peerBranchEnd?.version == rev("2-bb") && document.peerBranchEnd?.history == [rev("1-bb")])
    }

    @Test("a peer that knows the current revision by the version that stands for its id has it, whatever end of a branch it was offered")
    func aStandInIsTheSame() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true, naming: .vectors)
        try await database.insert("x", "3-cc", ["2-bb"])
        let name = RevisionID(VectorVersion(standingFor: rev("3-cc")))
        let compared = try await database.database.read { try source.compare($0, doc("x"), rev("4-aa"), with: name) }
        guard case .older = compared else { Issue.record("\(compared)"); return }
        try await database.insert("x", "4-aa", ["3-aa"], deleted: true)
        let again = try await database.database.read { try source.compare($0, doc("x"), rev("4-aa"), with: name) }
        guard case .same(name) = again else { Issue.record("\(again)"); return }
    }

    /// An edit made here has only an id; later a peer names the version of the revision that it is based on.
    @Test func theHistoryOfAnIDHoldsNoVersions() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true, naming: .vectors)
        let collection = source.collection
        var mark = IncomingRevision(id: doc("x"), revision: rev("1-aa"), history: RevisionHistory(), body: [])
        _ = try await database.database.write { [mark] in try $0.insert(mark, into: collection, conflicts: .refuse) }
        let child = IncomingRevision(id: doc("x"), revision: rev("2-bb"), history: RevisionHistory([rev("1-aa")]), body: [])
        _ = try await database.database.write { try $0.insert(child, into: collection, conflicts: .refuse) }
        let version = try VectorHistory("10@iuXHDzIbmEs9BHYDeWaoAg", history: "")
        mark.vector = version
        _ = try await database.database.write { [mark] in try $0.insert(mark, into: collection, conflicts: .refuse) }
        let named = RevisionID(version.vector.current)
        let tree = try await database.database.read { try $0.tree(collection, doc("x")) }
        #expect(tree?.name(of: rev("1-aa")) == named && tree?.vector(of: rev("2-bb")) == nil)
        let page = try await database.database.read { try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20) }
        let document = try #require(page.documents.first)
        #expect(document.version == rev("2-bb") && document.history == [rev("1-aa")])
        let compared = try await database.database.read { try source.compare($0, doc("x"), rev("2-bb"), with: named) }
        guard case .newer(let history) = compared else { Issue.record("\(compared)"); return }
        #expect(history == [rev("1-aa")])
    }

    /// The document was deleted on both sides, each in its own way, and created again here. Which tombstone the peer reads makes no difference.
    @Test(arguments: [RevisionNaming.trees, .vectors, .versionsOnly])
    func whatGoesOnFromOneTombstoneIsComparedWithAnother(_ naming: RevisionNaming) async throws {
        let database = try TestDatabase { $0.versionsEdits = naming != .trees }
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true, naming: naming)
        source.remote = try await database.database.write { try $0.remoteID(for: "peer") }
        // `x`: the peer's lesser tombstone was followed, and ours given up for it. `y`: both tombstones stay.
        for id in ["x", "y"] { try await database.insert(id, "2-bb", ["1-bb"], deleted: true) }
        try await database.insert("y", "2-aa", ["1-aa"], deleted: true)
        let history = RevisionHistory([rev("1-aa")])
        var theirs = IncomingRevision(id: doc("x"), revision: rev("2-aa"), history: history, isDeleted: true, body: [], remote: source.remote)
        theirs.peerHad = .none
        _ = try await database.database.write { [source, theirs] in try $0.insert(theirs, into: source.collection, conflicts: .store) }
        #expect(try await database.get("x")?.revision == rev("2-aa"))
        #expect(try await database.get("y")?.revision == rev("2-bb"))
        for (id, other) in [("x", rev("2-bb")), ("y", rev("2-aa"))] {
            let revision = try await database.put(id, "{}")
            let (compared, name, sent) = try await database.database.read { [source] transaction in
                let tree = try #require(try transaction.tree(source.collection, doc(id)))
                let name = tree.name(of: other, naming)
                let compared = try source.compare(transaction, doc(id), tree.name(of: revision, naming), with: name)
                return (compared, name, try source.read(transaction, [(doc(id), nil)], historyLimit: 20).documents.first)
            }
            #expect(compared == .goesOn(beside: name, sinceDeletion: naming == .trees ? [] : nil))
            // A peer that judges by versions alone takes it for newer than either.
            if naming == .versionsOnly { #expect(sent?.vector?.vector.knows(VectorVersion(standingFor: other)) == true) }
        }
    }

    /// Created anew at the peer, it keeps its id.
    @Test func whatWasNeverDeletedHereHasNoHistoryBesideADeletionOfThePeer() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        try await database.insert("x", "2-aa", ["1-aa"], deleted: true)
        let live = IncomingRevision(id: doc("x"), revision: rev("3-bb"), history: RevisionHistory([rev("2-bb"), rev("1-bb")]), body: [])
        _ = try await database.database.write { try $0.insert(live, into: source.collection, conflicts: .refuse) }
        let compared = try await database.database.read { try source.compare($0, doc("x"), rev("3-bb"), with: rev("2-aa")) }
        #expect(compared == .goesOn(beside: rev("2-aa"), sinceDeletion: []))
    }

    /// Nothing is left to send, whether the peer names its deletion as it is named here or by an earlier name.
    @Test func ofTwoDeletionsItMakesNoDifferenceWhichThePeerReads() async throws {
        let database = try TestDatabase()
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true, naming: .vectors)
        let remote = try await database.database.write { try $0.remoteID(for: "peer") }
        source.remote = remote
        func take(_ name: String, _ revision: String, remote: RemoteID? = nil) async throws {
            var vector = try VectorHistory(name, history: "")
            vector.place = VectorHistory.TreePlace(revision: rev(revision), history: RevisionHistory())
            var incoming = IncomingRevision(
                id: doc("x"), revision: RevisionID(vector.vector.current), history: RevisionHistory(), isDeleted: true, body: [], remote: remote)
            incoming.vector = vector
            _ = try await database.database.write { [source, incoming] in try $0.insert(incoming, into: source.collection, conflicts: remote == nil ? .refuse : .store) }
        }
        let (first, later) = ("10@iuXHDzIbmEs9BHYDeWaoAg", "30@AAAAAAAAAAAAAAAAAAAAAA")
        try await take("20@BBBBBBBBBBBBBBBBBBBBBA", "3-bb")
        try await take(first, "2-aa")
        try await database.database.write { [source] in try $0.setRemoteRevisions(remote, source.collection, [(doc("x"), rev("2-aa"))]) }
        for _ in 1...2 {
            let compared = try await database.database.read { [source] transaction in
                let tree = try #require(try transaction.tree(source.collection, doc("x")))
                return try source.compare(transaction, doc("x"), tree.name(of: rev("3-bb"), .vectors), with: RevisionID(named: first))
            }
            #expect(compared == .same(try RevisionID(named: first)))
            try await take(later, "2-aa")
        }
        let tree = try await database.database.read { [source] in try $0.tree(source.collection, doc("x")) }
        #expect(tree?.current?.revision == rev("3-bb"))
        #expect(tree?.name(of: rev("2-aa"), .vectors).text == later)
    }

    /// The tombstone ended a branch here, as a client of CouchDB brings it, while the document was edited, and the peer reads it.
    @Test(arguments: [RevisionNaming.trees, .vectors]) func whatIsReadHereGoesOnBesideTheEndOfABranch(_ naming: RevisionNaming) async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true, naming: naming)
        try await database.insert("x", "2-aa", ["1-aa"], deleted: true)
        try await database.insert("x", "4-bb", ["3-aa", "2-aa", "1-aa"])
        var theirs = IncomingRevision(id: doc("x"), revision: rev("4-cc"), history: RevisionHistory([rev("3-aa")]), isDeleted: true, body: [])
        theirs.deletion = .leaf
        _ = try await database.database.write { [source, theirs] in try $0.insert(theirs, into: source.collection, conflicts: .refuse) }
        #expect(try await database.get("x")?.revision == rev("4-bb"))
        let compared = try await database.database.read { try source.compare($0, doc("x"), rev("4-bb"), with: rev("4-cc")) }
        #expect(compared == .goesOn(beside: rev("4-cc"), sinceDeletion: naming == .trees ? [] : nil))
    }

    @Test func onlyTheCurrentRevisionIsComparedWithWhatThePeerHolds() async throws {
        let database = try TestDatabase { $0.historyDepth = 5 }
        let (source, revisions) = try await source(database, saves: 20)
        let old = try await database.database.read { try source.compare($0, doc("x"), revisions[17], with: revisions[0]) }
        guard case .older = old else { Issue.record("\(old)"); return }
        let current = try await database.database.read { try source.compare($0, doc("x"), revisions[19], with: revisions[0]) }
        guard case .newer(let history) = current else { Issue.record("\(current)"); return }
        #expect(history.first == revisions[18] && history.last == revisions[0])
    }

    /// The peer was told that each of its branches is over, and now has nothing but the ends.
    @Test func aPeerWithNothingButTheEndsOfItsBranchesHasOurDeletion() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        try await database.insert("x", "2-aa", ["1-aa"], deleted: true)
        try await database.insert("x", "2-bb", ["1-bb"], deleted: true)
        for end in ["2-aa", "2-bb"].map({ RevisionTree.end(of: rev($0)) }) {
            let compared = try await database.database.read { try source.compare($0, doc("x"), rev("2-bb"), with: end) }
            #expect(compared == .same(end))
        }
        let other = try await database.database.read { try source.compare($0, doc("x"), rev("2-bb"), with: RevisionTree.end(of: rev("2-cc"))) }
        #expect(other == .unknown)
    }

    /// A peer with one revision takes only what follows it.
    @Test(arguments: [true, false]) func whatWonFollowsThePeersLoser(_ isKept: Bool) async throws {
        let database = try TestDatabase { $0.historyDepth = 10 }
        if isKept { await database.database.noteBranchKeeper() }
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        try await database.insert("x", "2-aa", ["1-aa"])
        let collection = source.collection
        let remotes = try await database.database.write { transaction in
            let remotes = (try transaction.remoteID(for: "peer"), try transaction.remoteID(for: "other"))
            try transaction.setRemoteRevisions(remotes.0, collection, [(doc("x"), rev("2-aa"))])
            let theirs = IncomingRevision(
                id: doc("x"), revision: rev("4-bb"), history: RevisionHistory(["3-bb", "2-bb", "1-bb"].map(rev)), body: [], remote: remotes.1)
            _ = try transaction.insert(theirs, into: collection, conflicts: .store)
            return remotes
        }
        source.remote = remotes.0
        source.followsLosers = true
        func offered() async throws -> OutgoingDocument? {
            try await database.database.read { [source] in try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20).documents.first }
        }
        #expect(try await offered() == nil, "nothing is decided yet")
        try await database.database.write {
            _ = try $0.resolveConflict(collection, id: doc("x"), expectedLocal: rev("2-aa"), expectedRemote: rev("4-bb"), resolution: .remoteWins)
        }
        let document = try #require(try await offered())
        #expect(document.version == rev("4-bb") && document.history == [rev("3-bb"), rev("2-aa")] && document.followsLoser)
        // A peer that keeps every branch is told what is so.
        source.followsLosers = false
        #expect(try await offered()?.history == ["3-bb", "2-bb", "1-bb"].map(rev))
    }

    @Test func whatIsNoLaterGenerationCannotFollow() async throws {
        let database = try TestDatabase()
        var source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        try await database.insert("x", "2-bb", ["1-bb"])
        source.remote = try await acknowledge(database, rev("2-aa"))
        source.followsLosers = true
        let page = try await database.database.read { [source] in try source.read($0, from: FeedPosition(0), limit: 10, isBacklog: false, historyLimit: 20) }
        #expect(page.documents.first?.history == [rev("1-bb")] && page.documents.first?.followsLoser == false)
    }

    @Test func largeDocumentsAreReadAgainInParts() async throws {
        let database = try TestDatabase()
        let source = FeedSource(collection: try database.collection(), skipsConflicts: true)
        for number in 0..<3 { try await database.put("large-\(number)", "{\"text\":\"\(String(repeating: "x", count: 700_000))\"}") }
        let wanted = (0..<3).map { (doc("large-\($0)"), Optional<Version>.none) }
        let read = try await database.database.read { try source.read($0, wanted, historyLimit: 20) }
        #expect(read.count == 2 && read.documents.map(\.id) == [doc("large-0"), doc("large-1")])
    }
}
