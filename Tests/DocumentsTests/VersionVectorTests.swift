import Testing
import TestRandomness

@testable import Documents

@Suite("Versions and version vectors") struct VersionVectorTests {
    @Test("Couchbase Lite 4's rule: a deletion wins, else the later edit; both peers come to the same result")
    func laterWinner() throws {
        let (early, late) = (try VectorVersion("5@ABEiM0RVZneImaq7zN3u/w"), try VectorVersion("6@AAAAAAAAAAAAAAAAAAAAAA"))
        let same = try VectorVersion("5@AAAAAAAAAAAAAAAAAAAAAA")
        func winner(_ local: VectorVersion, _ remote: VectorVersion, _ deleted: (Bool, Bool) = (false, false)) -> ConflictWinner {
            ConflictRule.laterWinner(local: (local, deleted.0), remote: (remote, deleted.1))
        }
        #expect(winner(early, late) == .remote && winner(late, early) == .local)
        #expect(winner(early, late, (true, false)) == .local && winner(late, early, (false, true)) == .remote)
        #expect(winner(late, early, (true, true)) == .remote)
        #expect(winner(early, same) == .local && winner(same, early) == .remote)
    }

    private static let ann = "AAAAAAAAAAAAAAAAAAAAAA"
    private static let bob = "ABEiM0RVZneImaq7zN3u/w"

    private func version(_ time: UInt64, _ author: UInt8) throws -> VectorVersion {
        VectorVersion(time: time, source: try #require(SourceID([UInt8](repeating: author, count: 16))))
    }

    @Test("texts of versions", arguments: ["1@AAAAAAAAAAAAAAAAAAAAAA", "18b3a4c5d6e7f809@ABEiM0RVZneImaq7zN3u/w", "fffffffeffffffff@Revision+Tree+Encoding"])
    func versionTexts(_ text: String) throws {
        #expect(try VectorVersion(text).description == text)
    }

    @Test("strings that are not versions", arguments: [
        "", "@", "1@", "@AAAAAAAAAAAAAAAAAAAAAA", "0@AAAAAAAAAAAAAAAAAAAAAA", "01@AAAAAAAAAAAAAAAAAAAAAA", "1@AAAAAAAAAAAAAAAAAAAAA", "1@AAAAAAAAAAAAAAAAAAAAAAA",
        "1@AAAAAAAAAAAAAAAAAAAAAB", "1@*", "1@AAAAAAAAAAAAAAAAAAAAA*", "g@AAAAAAAAAAAAAAAAAAAAAA", "A@AAAAAAAAAAAAAAAAAAAAAA", "0x1@AAAAAAAAAAAAAAAAAAAAAA",
        "11111111111111111@AAAAAAAAAAAAAAAAAAAAAA", "ffffffffffffffff@AAAAAAAAAAAAAAAAAAAAAA", "-1@AAAAAAAAAAAAAAAAAAAAAA", "1-aa",
    ])
    func badVersions(_ text: String) {
        #expect(throws: VersionError.self) { try VectorVersion(text) }
    }

    @Test("revisions of trees are compared by generation and digest, under a name of their own")
    func standingForRevisions() throws {
        let standing = VectorVersion(standingFor: try RevisionID("3-abcdef0123456789"))
        #expect(standing.description == "3abcdef0123@Revision+Tree+Encoding")
        #expect(VectorVersion(standingFor: try RevisionID("1-ab")).description == "1ab00000000@Revision+Tree+Encoding")
        #expect(SourceID.revisionTree.bytes.prefix(4) == [0x45, 0xEB, 0xE2, 0xB2])
    }

    @Test("what peers send behind a revision", arguments: [
        // The revision, its history, and the vector's own text with the revisions behind it.
        ("2@\(ann)", "", "2@\(ann)"), ("2@\(ann)", "1@\(bob)", "2@\(ann);1@\(bob)"), ("2@\(ann)", "1@\(bob), 1-aa", "2@\(ann);1@\(bob)|1-aa"),
        ("2@\(ann)", "3-cc,2-bb", "2@\(ann)|3-cc,2-bb"), ("5@\(ann)", "4@\(bob);", "5@\(ann),4@\(bob);"),
        ("5@\(ann)", "4@\(bob);3@Revision+Tree+Encoding", "5@\(ann),4@\(bob);3@Revision+Tree+Encoding"), ("5@\(ann);4@\(bob)", "", "5@\(ann);4@\(bob)"),
        // Of an author's versions the newest counts.
        ("5@\(ann)", "2@\(ann),4@\(bob)", "5@\(ann);4@\(bob)"),
    ])
    func histories(_ revision: String, _ history: String, _ wanted: String) throws {
        let read = try VectorHistory(revision, history: history)
        #expect(read.vector.description + (read.revisions.isEmpty ? "" : "|\(read.revisions)") == wanted)
        // What is written is read as the same.
        let again = try VectorHistory(read.vector.current.description, history: read.text())
        #expect(again == read)
    }

    @Test("histories that are refused", arguments: [
        ("1-aa", ""), ("2@\(ann)", "1-aa,1@\(bob)"), ("2@\(ann)", "3@\(ann)"), ("2@\(ann)", "x"), ("2@\(ann)", "0-aa"), ("", "1@\(ann)"),
        ("2@\(ann)", String(repeating: "1@\(bob),", count: 1_000)),
    ])
    func badHistories(_ revision: String, _ history: String) throws {
        if revision.isEmpty {
            // The first version of all is the revision.
            #expect(try VectorHistory(revision, history: history).vector.current.description == "1@\(Self.ann)")
        } else {
            #expect(throws: VersionError.self) { try VectorHistory(revision, history: history) }
        }
    }

    @Test("edits are newer, branches are in conflict, and a merge is newer than both")
    func relations() throws {
        let first = VersionVector(try version(10, 1))
        let left = first.edited(try version(20, 2)), right = first.edited(try version(15, 3))
        #expect(left.relation(to: first) == .newer && first.relation(to: left) == .older)
        #expect(left.relation(to: right) == .conflicting && left.relation(to: left) == .same)
        let merged = VersionVector.merge(try version(30, 1), [left, right])
        #expect(merged.relation(to: left) == .newer && merged.relation(to: right) == .newer && merged.relation(to: first) == .newer)
        #expect(merged.merged.count == 2)
        var stronger = left
        stronger.absorb(right)
        #expect(stronger.current == left.current && stronger.relation(to: right) == .newer && right.relation(to: stronger) == .older)
        // An edit of the loser is in conflict with what only knows what it was made on.
        #expect(right.edited(try version(40, 3)).relation(to: stronger) == .conflicting)
    }

    @Test("of two that each absorbed the other, the one that knows more is newer, and otherwise the one with the later current version")
    func crossed() throws {
        let first = VersionVector(try version(10, 1))
        let left = first.edited(try version(20, 2)), right = first.edited(try version(15, 3))
        func absorbing(_ one: VersionVector, _ other: VersionVector) -> VersionVector {
            var vector = one
            vector.absorb(other)
            return vector
        }
        let (leftWon, rightWon) = (absorbing(left, right), absorbing(right, left))
        #expect(leftWon.relation(to: rightWon) == .newer && rightWon.relation(to: leftWon) == .older)
        // It was decided for the right side after another edit of the left one.
        let later = absorbing(right, left.edited(try version(40, 2)))
        #expect(later.relation(to: leftWon) == .newer && leftWon.relation(to: later) == .older)
        // A tree takes it for newer than what it has, or for something that it has superseded.
        func place(_ vector: VersionVector, over current: VersionVector) throws -> RevisionTree.VectorPlace {
            let revision = try RevisionID("2-aa")
            var tree = RevisionTree()
            _ = try tree.insert(revision)
            tree.setVector(current, of: revision)
            return tree.place(of: VectorHistory(vector), current: revision)
        }
        #expect(try place(later, over: leftWon) == .below(try RevisionID("2-aa")))
        #expect(try place(leftWon, over: later) == .superseded)
    }

    @Test("a peer that allows each author once gets the latest version of each, wherever it is listed")
    func authorsOnce() throws {
        let (ann, bob) = (Self.ann, Self.bob)
        // A side of a merge, and what went into the other side.
        let history = try VectorHistory("9@\(ann)", history: "3@\(bob);5@\(bob),2@Revision+Tree+Encoding,7@Revision+Tree+Encoding")
        #expect(history.vector.withAuthorsOnce.description == "9@\(ann);7@Revision+Tree+Encoding,5@\(bob)", "\(history.vector.withAuthorsOnce)")
    }

    @Test("vectors are bounded, and the latest versions stay")
    func bounds() throws {
        var vector = VersionVector(try version(1, 0))
        for number in 1...200 { vector = vector.edited(try version(UInt64(number) + 1, UInt8(number))) }
        #expect(vector.others.count == VersionVector.keptVersions)
        #expect(try vector.knows(version(200, 199)) && !vector.knows(version(2, 1)))
    }

    @Test("whatever is edited and merged where: what was made from another is newer, and the order is the same from both sides", arguments: 0..<50)
    func histories(_ run: Int) throws {
        let seed = makeSeed("histories \(run)")
        var random = SeededGenerator(seed: seed)
        var clocks = [UInt64](repeating: 1_000, count: 5)
        func next(_ author: Int) throws -> VectorVersion {
            // Clocks that stand an hour apart, and jump back.
            clocks[author] += UInt64.random(in: 1...50, using: &random)
            return try version(clocks[author] + UInt64(author) * 1_000_000, UInt8(author))
        }
        var made: [(vector: VersionVector, ancestors: Set<Int>)] = [(VersionVector(try next(0)), [])]
        for _ in 0..<40 {
            let author = Int.random(in: 0..<5, using: &random)
            let one = made.indices.randomElement(using: &random) ?? 0, other = made.indices.randomElement(using: &random) ?? 0
            // A database never edits on top of what lacks an earlier version of its own.
            let version = try next(author)
            let sides = one == other ? [one] : [one, other]
            let known = Set(sides).union(sides.flatMap { made[$0].ancestors })
            let own = made.indices.filter { made[$0].vector.current.source == version.source && !known.contains($0) }
            guard own.isEmpty else { continue }
            let vector = sides.count == 1 ? made[one].vector.edited(version) : .merge(version, sides.map { made[$0].vector })
            made.append((vector, known))
        }
        for a in made.indices {
            for b in made.indices {
                let relation = made[a].vector.relation(to: made[b].vector)
                let wanted: VersionVector.Relation =
                    a == b ? .same : made[a].ancestors.contains(b) ? .newer : made[b].ancestors.contains(a) ? .older : .conflicting
                #expect(relation == wanted, "\(made[a].vector) and \(made[b].vector), NIGHTJAR_SEED=\(seed)")
                #expect(try VectorHistory(made[a].vector.description, history: "").vector == made[a].vector)
            }
        }
    }

    // MARK: Trees

    /// The short way of a new document gives the bytes of the long one.
    @Test(arguments: [false, true]) func oneRevisionIsStoredAsATreeOfOne(_ isDeleted: Bool) throws {
        let vectors = [VersionVector(try version(10, 1)), VersionVector.merge(try version(20, 2), [VersionVector(try version(10, 1)), VersionVector(try version(5, 3))])]
        for vector in vectors + [vectors[1].edited(try version(30, 1))] {
            for id in ["1-aa", "700-0123456789abcdef0123456789abcdef"] {
                var tree = try RevisionTree(try RevisionID(id), isDeleted: isDeleted)
                tree.setVector(vector, of: try RevisionID(id))
                #expect(RevisionTree.encoded(try RevisionID(id), isDeleted: isDeleted, vector: vector) == tree.encode())
            }
        }
    }

    @Test("a tree with vectors is stored with them, and reads as it was; ancestors keep their versions")
    func encoding() throws {
        var tree = RevisionTree(), plain = RevisionTree()
        _ = try tree.insert(RevisionID("2-bb"), history: [RevisionID("1-aa")])
        _ = try plain.insert(RevisionID("2-bb"), history: [RevisionID("1-aa")])
        #expect(tree.encode() == plain.encode() && tree.encode().first == 1)
        let first = VersionVector(try version(10, 1)), second = VersionVector.merge(try version(20, 2), [first, VersionVector(try version(5, 3))])
        tree.setVector(first, of: try RevisionID("1-aa"))
        tree.setVector(second, of: try RevisionID("2-bb"))
        let read = try RevisionTree(decoding: tree.encode())
        #expect(try read == tree && read.vector(of: RevisionID("2-bb")) == second)
        _ = try tree.insert(RevisionID("3-cc"), history: [RevisionID("2-bb")])
        #expect(try RevisionTree(decoding: tree.encode()).vector(of: RevisionID("2-bb")) == second.bare)
        #expect(tree.encode().count - plain.encode().count < 200)
        for count in 0..<tree.encode().count { #expect(throws: RevisionTreeError.self) { try RevisionTree(decoding: Array(tree.encode()[..<count])) } }
    }

    @Test("one author's document costs 64 bytes for both identities at most")
    func size() throws {
        var tree = try RevisionTree(RevisionID("1-" + String(repeating: "ab", count: 20)))
        tree.setVector(VersionVector(try version(1 << 60, 7)), of: try #require(tree.winner).revision)
        #expect(tree.encode().count <= 64)
    }

    @Test("the place of a revision follows from its vector, and from the revisions behind it")
    func places() throws {
        var tree = RevisionTree()
        let legacy = try RevisionID("2-bb"), edited = try RevisionID("3-cc")
        _ = try tree.insert(legacy, history: [RevisionID("1-aa")])
        #expect(tree.place(of: try VectorHistory("5@\(Self.ann)", history: "2-bb,1-aa"), current: legacy) == .below(legacy))
        #expect(tree.place(of: try VectorHistory("5@\(Self.ann)", history: "2bb00000000@Revision+Tree+Encoding"), current: legacy) == .below(legacy))
        #expect(tree.place(of: try VectorHistory("5@\(Self.ann)", history: "1-aa"), current: legacy) == .below(try RevisionID("1-aa")))
        #expect(tree.place(of: try VectorHistory("5@\(Self.ann)", history: ""), current: legacy) == .below(nil))
        let vector = try VectorHistory("5@\(Self.ann)", history: "2-bb").vector
        _ = try tree.insert(edited, history: [legacy])
        tree.setVector(vector, of: edited)
        #expect(tree.place(of: try VectorHistory("5@\(Self.ann)", history: ""), current: edited) == .here(edited))
        #expect(tree.place(of: try VectorHistory("4@\(Self.ann)", history: ""), current: edited) == .superseded)
        #expect(tree.place(of: try VectorHistory("6@\(Self.ann)", history: ""), current: edited) == .below(edited))
        #expect(tree.place(of: try VectorHistory("1@\(Self.bob)", history: "5@\(Self.ann)"), current: edited) == .below(edited))
        #expect(tree.place(of: try VectorHistory("1@\(Self.bob)", history: "2-bb"), current: edited) == .below(legacy))
        #expect(tree.name(of: edited) == RevisionID(vector.current) && tree.name(of: legacy) == legacy)
        #expect(tree.revision(named: RevisionID(vector.current)) == edited && tree.revision(named: legacy) == legacy)
        // The same revision, made by another author as well, under the earlier of its two names.
        var earlier = try VectorHistory("4@\(Self.ann)", history: "")
        earlier.place = .init(revision: edited, history: RevisionHistory())
        #expect(tree.place(of: earlier, current: edited) == .here(edited))
        // Another revision of that author under this id has no such name.
        earlier = try VectorHistory("4@\(Self.bob)", history: "")
        earlier.place = .init(revision: edited, history: RevisionHistory())
        #expect(tree.place(of: earlier, current: edited) != .superseded)
    }
}
