import Encodings
import Glibc

/// The known revisions of one document. A value type with nodes in descending order (generation, then digest), so that the order of insertion leaves
/// no trace and the newest come first.
public struct RevisionTree: Sendable, Equatable {
    struct Node: Sendable {
        var generation: UInt64
        /// Position of the digest in `digests`.
        var digestStart: UInt32
        var digestCount: UInt32
        /// Index of the parent, -1 for a root. Parents come after their children.
        var parent: Int32
        var isDeleted: Bool
        var isLeaf: Bool
    }

    /// A revision and its place in the tree.
    public struct Entry: Sendable, Equatable {
        public let revision: RevisionID
        public let parent: RevisionID?
        public let isDeleted: Bool
        public let isLeaf: Bool
    }

    /// The end of a branch.
    public struct Leaf: Sendable, Equatable {
        public let revision: RevisionID
        public let isDeleted: Bool
    }

    /// The result of an insertion.
    public enum Insertion: Sendable, Equatable {
        /// The revision existed; nothing changed.
        case alreadyPresent
        /// It was added below `ancestor` (nil: as a new root). `extendsLeaf` if that ancestor was a leaf before.
        case inserted(ancestor: RevisionID?, extendsLeaf: Bool)
    }

    var nodes: [Node] = []
    /// The digests' bytes, concatenated in any order.
    var digests: [UInt8] = []
    /// Version vectors of the revisions that have one, for comparison by peers with version vectors, see `RevisionTreeVectors`.
    var vectors = VectorTable()

    public init() {}

    /// A tree with a single first revision. Throws `.notATreeRevision`.
    public init(_ revision: RevisionID, isDeleted: Bool = false) throws(RevisionTreeError) {
        _ = try insert(revision, isDeleted: isDeleted)
    }

    // MARK: - Queries

    public var count: Int { nodes.count }
    public var isEmpty: Bool { nodes.isEmpty }

    /// All revisions, newest first.
    public var entries: [Entry] {
        nodes.indices.map { index in
            let node = nodes[index]
            return Entry(
                revision: revision(at: index), parent: node.parent < 0 ? nil : revision(at: Int(node.parent)),
                isDeleted: node.isDeleted, isLeaf: node.isLeaf)
        }
    }

    /// The ends of all branches, the winner first: live before deleted, then in descending order.
    public var leaves: [Leaf] {
        let ends = nodes.indices.filter { nodes[$0].isLeaf }
        return (ends.filter { !nodes[$0].isDeleted } + ends.filter { nodes[$0].isDeleted }).map { leaf(at: $0) }
    }

    /// The current revision: a live leaf before a deleted one, then the higher generation, then the greater digest. The same on every replica that
    /// knows the same leaves. nil for an empty tree.
    public var winner: Leaf? { winnerIndex.map { leaf(at: $0) } }

    /// Whether more than one branch ends here, including in tombstones.
    public var hasSeveralLeaves: Bool { nodes.lazy.filter(\.isLeaf).prefix(2).count > 1 }
    /// Whether more than one branch ends in a live revision.
    public var hasConflict: Bool { nodes.lazy.filter { $0.isLeaf && !$0.isDeleted }.prefix(2).count > 1 }

    public func contains(_ revision: RevisionID) -> Bool { index(of: revision) != nil }
    public func isLeaf(_ revision: RevisionID) -> Bool { index(of: revision).map { nodes[$0].isLeaf } ?? false }
    /// nil if the revision is not known.
    public func isDeleted(_ revision: RevisionID) -> Bool? { index(of: revision).map { nodes[$0].isDeleted } }
    /// nil for a root or an unknown revision.
    public func parent(of revision: RevisionID) -> RevisionID? {
        guard let index = index(of: revision), nodes[index].parent >= 0 else { return nil }
        return self.revision(at: Int(nodes[index].parent))
    }

    /// The ancestors, nearest first, without the revision itself; at most `limit`.
    public func ancestors(of revision: RevisionID, limit: Int = .max) -> [RevisionID] {
        history(of: revision, limit: limit, until: [])
    }

    /// The history that a peer needs with a revision: its ancestors, nearest first, up to and including the first of `known`, which may then exceed
    /// `limit` by one; without any, at most `limit` (replication.md section 5).
    public func history(of revision: RevisionID, limit: Int, until known: [RevisionID]) -> [RevisionID] {
        guard let start = index(of: revision) else { return [] }
        let stops = known.compactMap { index(of: $0) }
        var history: [RevisionID] = []
        var stopped = stops.isEmpty
        var at = Int(nodes[start].parent)
        while at >= 0 {
            if !stops.isEmpty, stops.contains(at) {
                history.append(self.revision(at: at))
                stopped = true
                break
            }
            if history.count < limit { history.append(self.revision(at: at)) } else if stopped { break }
            at = Int(nodes[at].parent)
        }
        return history
    }

    /// Whether `a` is an ancestor of `b`. A revision is not its own ancestor.
    public func isAncestor(_ a: RevisionID, of b: RevisionID) -> Bool {
        guard let wanted = index(of: a), let start = index(of: b) else { return false }
        var at = Int(nodes[start].parent)
        while at >= 0, at < wanted { at = Int(nodes[at].parent) }
        return at == wanted
    }

    /// Whether a revision that is not in the tree may be a pruned ancestor: some branch has no revision of its generation.
    public func mayHavePruned(_ revision: RevisionID) -> Bool {
        nodes.indices.contains { leaf in
            guard nodes[leaf].isLeaf else { return false }
            var at = leaf
            while nodes[at].generation > revision.generation {
                guard nodes[at].parent >= 0 else { return true }
                at = Int(nodes[at].parent)
                if nodes[at].generation < revision.generation { return true }
            }
            return false
        }
    }

    /// The newest revision from which both descend (one of them, if it is the other's ancestor); nil if there is none.
    public func commonAncestor(of a: RevisionID, and b: RevisionID) -> RevisionID? {
        guard var x = index(of: a), var y = index(of: b) else { return nil }
        // Parents have greater indexes, so the one with the smaller index moves up.
        while x != y {
            if x < y { x = Int(nodes[x].parent) } else { y = Int(nodes[y].parent) }
            if x < 0 || y < 0 { return nil }
        }
        return revision(at: x)
    }

    // MARK: Size

    /// Memory it takes, in bytes.
    public var memorySize: Int {
        let named = vectors.values.reduce(0) { $0 + Self.vectorSize + $1.others.count * 2 * MemoryLayout<VectorVersion>.stride }
        return nodes.count * MemoryLayout<Node>.stride + digests.count + named
    }

    /// A vector with its entry in the table and the revision that it belongs to.
    private static let vectorSize = 512

    /// The memory that a stored tree takes when decoded, in bytes. The data need not be a valid tree.
    public static func memorySize(ofEncoded bytes: [UInt8]) -> Int {
        guard bytes.count > 1 else { return 0 }
        let count = bytes.withRawBytes { Varint.read($0, at: 1) }
        // Each revision takes at least five bytes.
        let nodes = count.length > 0 ? min(Int(clamping: count.value), bytes.count / 5 + 1) : 0
        let named = bytes[0] == encodingVersionWithVectors ? nodes * vectorSize : 0
        return nodes * MemoryLayout<Node>.stride + bytes.count + named
    }

    // MARK: - Internals

    var winnerIndex: Int? {
        nodes.firstIndex { $0.isLeaf && !$0.isDeleted } ?? nodes.firstIndex { $0.isLeaf }
    }

    func leaf(at index: Int) -> Leaf { Leaf(revision: revision(at: index), isDeleted: nodes[index].isDeleted) }

    func revision(at index: Int) -> RevisionID {
        let node = nodes[index]
        return digests.withUnsafeBytes { all in
            let digest = UnsafeRawBufferPointer(rebasing: all[Int(node.digestStart)..<Int(node.digestStart + node.digestCount)])
            return RevisionID(text: RevisionDigest.text(node.generation, digest), generation: node.generation)
        }
    }

    func index(of revision: RevisionID) -> Int? {
        withUnsafeTemporaryAllocation(byteCount: DocumentLimits.revisionDigestDigits / 2, alignment: 1) { scratch in
            guard let count = Self.readDigest(of: revision, into: scratch) else { return nil }
            return index(generation: revision.generation, digest: UnsafeRawBufferPointer(rebasing: scratch[..<count]))
        }
    }

    func index(generation: UInt64, digest: UnsafeRawBufferPointer) -> Int? {
        var low = 0
        var high = nodes.count
        while low < high {
            let middle = (low + high) / 2
            let order = compare(nodes[middle], generation, digest)
            if order == 0 { return middle }
            if order > 0 { low = middle + 1 } else { high = middle }
        }
        return nil
    }

    /// Negative, zero or positive if the node is less, equal or greater.
    @inline(__always)
    func compare(_ node: Node, _ generation: UInt64, _ digest: UnsafeRawBufferPointer) -> Int {
        if node.generation != generation { return node.generation < generation ? -1 : 1 }
        return digests.withUnsafeBytes { all in
            let own = UnsafeRawBufferPointer(rebasing: all[Int(node.digestStart)..<Int(node.digestStart + node.digestCount)])
            return compareBytes(own.assumingMemoryBound(to: UInt8.self), digest.assumingMemoryBound(to: UInt8.self))
        }
    }

    func compare(_ a: Node, _ b: Node) -> Int {
        digests.withUnsafeBytes { all in
            compare(a, b.generation, UnsafeRawBufferPointer(rebasing: all[Int(b.digestStart)..<Int(b.digestStart + b.digestCount)]))
        }
    }

    /// The bytes of a tree revision's digest; nil for other ids.
    static func readDigest(of revision: RevisionID, into out: UnsafeMutableRawBufferPointer) -> Int? {
        guard revision.generation > 0 else { return nil }
        return revision.text.withBytes { text in
            guard let dash = text.firstIndex(of: 0x2D) else { return nil }
            let digits = text.count - dash - 1
            guard digits >= 2, digits & 1 == 0, digits / 2 <= out.count else { return nil }
            var isHex = true
            // Within the limits checked above.
            guard let from = text.baseAddress?.advanced(by: dash + 1), let to = out.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
            for index in 0..<(digits / 2) {
                let (high, low) = (digit(from[2 * index]), digit(from[2 * index + 1]))
                isHex = isHex && high | low < 16
                to[index] = high << 4 | low & 15
            }
            return isHex ? digits / 2 : nil
        }
    }

    @inline(__always)
    private static func digit(_ byte: UInt8) -> UInt8 {
        let (decimal, letter) = (byte &- 0x30, byte &- 0x61)
        return decimal < 10 ? decimal : letter < 6 ? letter + 10 : 0xFF
    }

    public static func == (a: RevisionTree, b: RevisionTree) -> Bool {
        guard a.nodes.count == b.nodes.count, a.vectors == b.vectors else { return false }
        return a.digests.withUnsafeBytes { all in
            zip(a.nodes, b.nodes).allSatisfy { x, y in
                x.parent == y.parent && x.isDeleted == y.isDeleted && x.isLeaf == y.isLeaf
                    && b.compare(y, x.generation, UnsafeRawBufferPointer(rebasing: all[Int(x.digestStart)..<Int(x.digestStart + x.digestCount)])) == 0
            }
        }
    }
}

/// Why a revision cannot be added to a tree, or a stored tree cannot be decoded.
public enum RevisionTreeError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Not `generation-digest`.
    case notATreeRevision(value: String)
    /// A step in the history does not lead to a lower generation.
    case historyDoesNotDescend(child: RevisionID, parent: RevisionID)
    case historyTooLong(count: Int, limit: Int)
    /// The tree could not be decoded again.
    case generationTooHigh(RevisionID, limit: UInt64)
    case tooManyRevisions(count: Int, limit: Int)
    /// The stored bytes are not a tree: the database is damaged.
    case malformedEncoding(reason: String, offset: Int)
    /// The stored bytes use a format that only a later version of this program knows.
    case unsupportedEncoding(version: UInt8)

    public var description: String {
        switch self {
        case .notATreeRevision(let value): "the revision \(value) is not of the form generation-digest and has no place in a revision tree"
        case .historyDoesNotDescend(let child, let parent):
            "the history goes from \(child) to \(parent), whose generation is not lower: ancestors must come newest first"
        case .historyTooLong(let count, let limit): "the history has \(count) revisions, more than historyRevisions = \(limit)"
        case .generationTooHigh(let revision, let limit):
            "the revision \(revision) has a generation above storedGeneration = \(limit): purge the document and save it again"
        case .tooManyRevisions(let count, let limit):
            "the document would have \(count) revisions, more than treeRevisions = \(limit): resolve its conflicts"
        case .malformedEncoding(let reason, let offset): "the stored revision tree is damaged at byte \(offset): \(reason)"
        case .unsupportedEncoding(let version):
            "the stored revision tree has form \(version), this program knows form \(RevisionTree.encodingVersion): use a newer program"
        }
    }
}
