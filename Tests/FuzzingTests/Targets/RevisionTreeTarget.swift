@testable import Documents

extension FuzzTarget {
    /// A stored revision tree: bytes that are one can be written, read and changed, others are refused in words.
    static let revisionTrees = FuzzTarget("revision-trees", longestInput: 8_192) { bytes in
        let tree: RevisionTree
        do throws(RevisionTreeError) { tree = try RevisionTree(decoding: bytes) } catch {
            return try hold(!error.description.isEmpty, "no words for \(error)")
        }
        let written = tree.encode()
        // Numbers may have been written longer than they need.
        try hold(written.count <= bytes.count, "the stored form grew")
        if written.count == bytes.count { try hold(written == bytes, "the stored form changed") }
        try hold(try RevisionTree(decoding: written) == tree, "the stored form reads differently")
        try holdForReading(tree)
        try holdForChanges(tree)
    }

    private static func holdForReading(_ tree: RevisionTree) throws {
        let entries = tree.entries
        let leaves = tree.leaves
        try hold(entries.count == tree.count && Set(entries.map(\.revision)).count == tree.count, "revisions are not told apart")
        try hold(tree.isEmpty || !leaves.isEmpty, "a tree without leaves")
        try hold((tree.winner == nil) == tree.isEmpty, "a tree without a winner")
        for entry in entries.prefix(50) {
            try hold(tree.contains(entry.revision) && tree.isDeleted(entry.revision) == entry.isDeleted, "a revision that is not found")
            try hold(tree.parent(of: entry.revision) == entry.parent, "two parents")
            let read = try? RevisionID(known: entry.revision.text)
            try hold(read == entry.revision, "\(entry.revision) is no revision's id")
            let ancestors = tree.ancestors(of: entry.revision)
            try hold(ancestors.count < tree.count && zip(ancestors, ancestors.dropFirst()).allSatisfy { $0.generation > $1.generation }, "no way up")
            if let parent = entry.parent { try hold(tree.isAncestor(parent, of: entry.revision), "a parent that is no ancestor") }
        }
        for (one, other) in zip(leaves.prefix(20), leaves.dropFirst()) {
            if let common = tree.commonAncestor(of: one.revision, and: other.revision) {
                try hold(tree.isAncestor(common, of: one.revision) || common == one.revision, "no common ancestor")
            }
            _ = tree.history(of: one.revision, limit: 20, until: [other.revision])
        }
    }

    private static func holdForChanges(_ tree: RevisionTree) throws {
        func check(_ changed: RevisionTree, _ what: String) throws {
            try hold(try RevisionTree(decoding: changed.encode()) == changed, "after \(what) the stored form reads differently")
        }
        var pruned = tree
        let removed = pruned.prune(depth: 3)
        try hold(pruned.count + removed == tree.count && Set(pruned.leaves.map(\.revision)) == Set(tree.leaves.map(\.revision)), "pruning took leaves")
        try check(pruned, "pruning")
        for leaf in tree.leaves.prefix(3) {
            var cut = tree
            let gone = cut.removeBranch(leaf.revision)
            try hold(gone.contains(leaf.revision) && cut.count + gone.count == tree.count, "a branch that did not go")
            try check(cut, "removing a branch")
            guard leaf.revision.generation < DocumentLimits.revisionGeneration else { continue }
            var grown = tree
            let child = RevisionDigest.revision(parent: leaf.revision, deleted: false, canonicalBody: Array("{}".utf8))
            do throws(RevisionTreeError) {
                _ = try grown.insert(child, history: [leaf.revision], isDeleted: false)
            } catch {
                guard case .tooManyRevisions = error else { throw FuzzFinding(description: "a child is refused: \(error)") }
                continue
            }
            try hold(grown.contains(child), "a child that is not there")
            try check(grown, "a child")
        }
    }
}
