import Testing

@testable import Documents

@Suite struct RevisionTreeTests {
    private func revisions(_ texts: String...) throws -> [RevisionID] { try texts.map { try RevisionID($0) } }

    @Test func aBranchGrowsFromItsNewestKnownAncestor() throws {
        let r = try revisions("1-aa", "2-bb", "3-cc", "4-dd")
        var tree = try RevisionTree(r[0])
        #expect(try tree.insert(r[3], history: [r[2], r[1], r[0]]) == .inserted(ancestor: r[0], extendsLeaf: true))
        #expect(tree.winner?.revision == r[3])
        #expect(tree.ancestors(of: r[3]) == [r[2], r[1], r[0]])
        #expect(tree.isAncestor(r[0], of: r[3]))
        #expect(!tree.isAncestor(r[3], of: r[0]))
        #expect(!tree.isAncestor(r[3], of: r[3]))
        #expect(try tree.insert(r[2], history: [r[1]]) == .alreadyPresent)
        #expect(tree.isLeaf(r[3]) && !tree.isLeaf(r[2]))
        #expect(tree.parent(of: r[1]) == r[0] && tree.parent(of: r[0]) == nil)
    }

    @Test func aSiblingMakesAConflictUntilItsBranchIsRemoved() throws {
        let r = try revisions("1-aa", "2-bb", "2-cc", "3-dd")
        var tree = try RevisionTree(r[0])
        try tree.insert(r[1], history: [r[0]])
        #expect(!tree.hasConflict)
        #expect(try tree.insert(r[3], history: [r[2], r[0]]) == .inserted(ancestor: r[0], extendsLeaf: false))
        #expect(tree.hasConflict)
        #expect(tree.leaves.map(\.revision) == [r[3], r[1]])
        #expect(tree.commonAncestor(of: r[1], and: r[3]) == r[0])
        #expect(tree.commonAncestor(of: r[2], and: r[3]) == r[2])
        #expect(tree.removeBranch(r[2]) == [], "no leaf")
        #expect(tree.removeBranch(r[3]) == [r[3], r[2]])
        #expect(!tree.hasConflict)
        #expect(tree.winner?.revision == r[1])
    }

    @Test func onlyABranchWithRoomMayHavePrunedARevision() throws {
        let r = try revisions("3-cc", "4-dd", "5-ee")
        var tree = try RevisionTree(r[0])
        try tree.insert(r[2], history: [r[1], r[0]])
        #expect(try tree.mayHavePruned(RevisionID("2-bb")), "before the first that is left")
        #expect(try !tree.mayHavePruned(RevisionID("4-00")) && !tree.mayHavePruned(RevisionID("3-00")))
        #expect(try !tree.mayHavePruned(RevisionID("5-ff")) && !tree.mayHavePruned(RevisionID("6-ff")), "not older than the leaf")
    }

    @Test func aLiveLeafWinsOverATombstone() throws {
        let r = try revisions("1-aa", "2-bb", "3-cc")
        var tree = try RevisionTree(r[0])
        try tree.insert(r[2], history: [r[1], r[0]], isDeleted: true)
        #expect(tree.winner == RevisionTree.Leaf(revision: r[2], isDeleted: true))
        let other = try RevisionID("2-00")
        try tree.insert(other, history: [r[0]])
        #expect(tree.winner?.revision == other)
        #expect(tree.isDeleted(r[2]) == true)
        #expect(tree.isDeleted(other) == false)
        #expect(try tree.isDeleted(RevisionID("7-00")) == nil)
        #expect(!tree.hasConflict)
    }

    @Test func generationsDescend() throws {
        let r = try revisions("3-cc", "5-ee")
        var tree = RevisionTree()
        #expect(throws: RevisionTreeError.historyDoesNotDescend(child: r[0], parent: r[0])) { try tree.insert(r[0], history: [r[0]]) }
        #expect(throws: RevisionTreeError.historyDoesNotDescend(child: r[0], parent: r[1])) { try tree.insert(r[0], history: [r[1]]) }
        #expect(tree == RevisionTree(), "errors change nothing")
    }

    @Test func whatComesAfterAGapCountsFarBackOrIfItLeadsToAKnownRevision() throws {
        let r = try revisions("5-ee", "4-dd", "2-bb", "1-aa")
        // The third revision, counting the new one, may come after a gap if the depth is 3.
        var deep = RevisionTree()
        try deep.insert(r[0], history: [r[1], r[2], r[3]], depth: 3)
        #expect(deep.ancestors(of: r[0]) == [r[1], r[2], r[3]])
        // Sooner, nothing that is known here is behind it.
        var fresh = RevisionTree()
        try fresh.insert(r[0], history: [r[1], r[2], r[3]], depth: 4)
        #expect(fresh.ancestors(of: r[0]) == [r[1]])
        var plain = RevisionTree()
        try plain.insert(r[0], history: [r[1]], depth: 4)
        #expect(fresh == plain)
        // A peer that keeps fewer revisions still sends one of which both know.
        var known = try RevisionTree(r[3])
        let insertion = try known.insert(r[0], history: [r[1], r[2], r[3]], depth: 4)
        #expect(insertion == .inserted(ancestor: r[3], extendsLeaf: true))
        #expect(known.ancestors(of: r[0]) == [r[1], r[2], r[3]] && !known.hasConflict)
    }

    @Test func whatLiesBeyondAKnownRevisionIsNotRead() throws {
        let r = try revisions("3-cc", "4-dd", "1-aa")
        var tree = try RevisionTree(r[0])
        // LiteCore stops at the first known revision; the gap after it is no matter.
        try tree.insert(r[1], history: [r[0], r[2]])
        #expect(tree.count == 2)
    }

    @Test func limitsHaveNames() throws {
        var tree = RevisionTree()
        let history = try (1...1_001).reversed().map { try RevisionID("\($0)-aa") }
        let error = #expect(throws: RevisionTreeError.self) { try tree.insert(RevisionID("1002-aa"), history: history) }
        #expect(error?.description.contains("historyRevisions = 1000") == true)
        for index in 0..<DocumentLimits.treeRevisions {
            let digits = String(index, radix: 16)
            try tree.insert(RevisionID("1-" + String(repeating: "0", count: 6 - digits.utf8.count) + digits))
        }
        let full = #expect(throws: RevisionTreeError.self) { try tree.insert(RevisionID("1-ffffff")) }
        #expect(full?.description.contains("treeRevisions = 10000") == true)
        #expect(try RevisionTree(decoding: tree.encode()) == tree)
    }

    @Test func otherRevisionsHaveNoPlace() {
        var tree = RevisionTree()
        #expect(throws: RevisionTreeError.self) { try tree.insert(RevisionID(stored: "1@AAAAAAAAAAAAAAAAAAAAAA")) }
        #expect(!tree.contains(RevisionID(stored: "nonsense")))
    }

    @Test func historyForAPeer() throws {
        var tree = RevisionTree()
        let all = try (1...20).reversed().map { try RevisionID("\($0)-aa") }
        try tree.insert(all[0], history: Array(all[1...]))
        #expect(tree.history(of: all[0], limit: 5, until: []) == Array(all[1...5]))
        #expect(tree.history(of: all[0], limit: 50, until: [all[3]]) == Array(all[1...3]))
        #expect(tree.history(of: all[0], limit: 2, until: [all[10]]) == [all[1], all[2], all[10]])
        #expect(tree.history(of: all[0], limit: 2, until: [try RevisionID("7-bb")]) == [all[1], all[2]])
    }

    @Test func pruningKeepsLeavesAndWhatIsAskedFor() throws {
        var tree = RevisionTree()
        let all = try (1...20).reversed().map { try RevisionID("\($0)-aa") }
        try tree.insert(all[0], history: Array(all[1...]))
        let side = try RevisionID("3-bb")
        try tree.insert(side, history: [all[18]])
        #expect(tree.prune(depth: 4, keeping: [all[9]]) == 13)
        #expect(tree.entries.map(\.revision.text) == ["20-aa", "19-aa", "18-aa", "17-aa", "11-aa", "3-bb", "2-aa", "1-aa"])
        #expect(tree.parent(of: all[3]) == all[9])
        #expect(tree.parent(of: all[9]) == all[18], "the link leaps over what went")
        #expect(tree.prune(depth: 4, keeping: [all[9]]) == 0)
    }
}
