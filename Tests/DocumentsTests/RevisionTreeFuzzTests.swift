import TestRandomness
import Testing

@testable import Documents

@Suite struct RevisionTreeFuzzTests {
    /// A document's whole family of revisions, made at random: each with its parent.
    private struct Family {
        var parents: [RevisionID: RevisionID?] = [:]
        var deleted: Set<RevisionID> = []
        var order: [RevisionID] = []

        init(_ random: inout SeededGenerator) throws {
            for number in 0..<(2 + random.below(30)) {
                let parent = order.isEmpty || random.chance(oneIn: 15) ? nil : order[random.chance(oneIn: 2) ? order.count - 1 : random.below(order.count)]
                let digits = String(0x100 + number * 7919 % 0xE00, radix: 16)
                let revision = try RevisionID("\((parent?.generation ?? 0) + 1)-0\(digits)")
                guard parents[revision] == nil else { continue }
                parents[revision] = .some(parent)
                order.append(revision)
                if random.chance(oneIn: 5) { deleted.insert(revision) }
            }
        }

        func history(_ revision: RevisionID) -> [RevisionID] {
            var found: [RevisionID] = []
            var at = parents[revision] ?? nil
            while let current = at {
                found.append(current)
                at = parents[current] ?? nil
            }
            return found
        }

        var leaves: [RevisionID] {
            let inner = Set(parents.values.compactMap { $0 })
            return order.filter { !inner.contains($0) }
        }

        var winner: RevisionID? {
            let live = leaves.filter { !deleted.contains($0) }
            return (live.isEmpty ? leaves : live).max()
        }
    }

    @Test func treesDoNotDependOnTheOrderOfInsertion() throws {
        let seed = makeSeed("RevisionTreeFuzzTests.order")
        var random = SeededGenerator(seed: seed)
        for round in 0..<400 {
            let family = try Family(&random)
            let note: Comment = "seed \(seed), round \(round)"
            var reference: RevisionTree?
            for _ in 0..<3 {
                var tree = RevisionTree()
                for revision in family.leaves.shuffled(using: &random) {
                    try tree.insert(revision, history: family.history(revision), isDeleted: family.deleted.contains(revision))
                    let before = tree
                    let again = family.order[random.below(family.order.count)]
                    if tree.contains(again) {
                        #expect(try tree.insert(again, history: family.history(again), isDeleted: random.chance(oneIn: 2)) == .alreadyPresent, note)
                        #expect(tree == before, note)
                    }
                }
                #expect(tree.winner?.revision == family.winner, note)
                #expect(Set(tree.leaves.map(\.revision)) == Set(family.leaves), note)
                #expect(tree.hasConflict == (family.leaves.filter { !family.deleted.contains($0) }.count > 1), note)
                #expect(tree == reference ?? tree, note)
                #expect(try RevisionTree(decoding: tree.encode()) == tree, note)
                #expect(tree.encode() == (reference ?? tree).encode(), note)
                reference = tree
            }
            // Revision by revision as they arise, in an order in which parents come first, gives the same winner.
            var grown = RevisionTree()
            for revision in family.order {
                try grown.insert(revision, history: family.history(revision), isDeleted: family.deleted.contains(revision))
            }
            #expect(grown.winner?.revision == family.winner, note)
            #expect(grown.leaves == reference?.leaves, note)
            for _ in 0..<10 {
                let a = family.order[random.below(family.order.count)]
                let b = family.order[random.below(family.order.count)]
                let pathA = [a] + family.history(a)
                let pathB = [b] + family.history(b)
                #expect(grown.commonAncestor(of: a, and: b) == pathA.first { pathB.contains($0) }, note)
                #expect(grown.isAncestor(a, of: b) == family.history(b).contains(a), note)
                #expect(grown.ancestors(of: a) == family.history(a), note)
            }
        }
    }

    @Test func pruningNeverDropsLeavesOrKeptRevisions() throws {
        let seed = makeSeed("RevisionTreeFuzzTests.prune")
        var random = SeededGenerator(seed: seed)
        for round in 0..<400 {
            let family = try Family(&random)
            let note: Comment = "seed \(seed), round \(round)"
            var tree = RevisionTree()
            for revision in family.order {
                try tree.insert(revision, history: family.history(revision), isDeleted: family.deleted.contains(revision))
            }
            let kept = Set((0..<random.below(4)).map { _ in family.order[random.below(family.order.count)] })
            let depth = 1 + random.below(5)
            let leaves = tree.leaves
            let before = tree
            let removed = tree.prune(depth: depth, keeping: kept)
            #expect(removed == before.count - tree.count, note)
            #expect(tree.leaves == leaves, note)
            #expect(kept.allSatisfy { tree.contains($0) }, note)
            // Exactly what is near a leaf or kept is left, and links go to the nearest remaining ancestor.
            let near = Set(family.leaves.flatMap { ([$0] + family.history($0)).prefix(depth) })
            #expect(Set(tree.entries.map(\.revision)) == near.union(kept), note)
            for entry in tree.entries {
                #expect(entry.parent == family.history(entry.revision).first { near.contains($0) || kept.contains($0) }, note)
            }
            #expect(try RevisionTree(decoding: tree.encode()) == tree, note)
            // Removing branches one by one ends with the empty tree, and never touches another leaf.
            while let leaf = tree.leaves.last {
                let others = tree.leaves.dropLast().map(\.revision)
                #expect(tree.removeBranch(leaf.revision).first == leaf.revision, note)
                #expect(tree.leaves.map(\.revision) == others, note)
            }
            #expect(tree.isEmpty, note)
        }
    }

    @Test func damagedEncodingsAreErrorsOrSoundTrees() throws {
        let seed = makeSeed("RevisionTreeFuzzTests.decode")
        var random = SeededGenerator(seed: seed)
        var refused = 0
        for round in 0..<5_000 {
            let family = try Family(&random)
            var tree = RevisionTree()
            for revision in family.leaves { try tree.insert(revision, history: family.history(revision)) }
            var bytes = tree.encode()
            for _ in 0...random.below(3) where !bytes.isEmpty {
                let at = random.below(bytes.count)
                switch random.below(4) {
                case 0: bytes[at] = UInt8(random.below(256))
                case 1: bytes[at] ^= 1 << UInt8(random.below(8))
                case 2: bytes.insert(UInt8(random.below(256)), at: at)
                default: bytes.removeSubrange(at...)
                }
            }
            do {
                let read = try withExactCopy(bytes) { try RevisionTree(decoding: $0) }
                let note: Comment = "seed \(seed), round \(round)"
                #expect(try RevisionTree(decoding: read.encode()) == read, note)
                for entry in read.entries {
                    #expect(read.contains(entry.revision), note)
                    _ = read.ancestors(of: entry.revision)
                    if let parent = entry.parent { #expect(parent.generation < entry.revision.generation, note) }
                }
                #expect(read.isEmpty || read.winner != nil, note)
            } catch is RevisionTreeError {
                refused += 1
            }
        }
        #expect(refused > 500)
    }
}
