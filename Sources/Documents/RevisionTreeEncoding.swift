import Encodings

/// The stored form: a version byte, the number of nodes, then for each node, in descending order, its flags (1: deleted), the distance to its
/// parent's node (0: none), its generation, the length of its digest, and the digest. Numbers are little-endian base-128 varints.
///
/// Version 2 continues with version vectors: the number of authors, 16 bytes for each, and the number of vectors. Each vector consists of the index
/// of its node, how many versions were merged into it, how many are older, and its versions, the current one first: the author's index, then eight
/// bytes of time, lowest first. For ancestors only the current version is kept.
extension RevisionTree {
    static let encodingVersion: UInt8 = 1
    static let encodingVersionWithVectors: UInt8 = 2

    public func encode() -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(4 + digests.count + nodes.count * 6)
        out.append(vectors.isEmpty ? Self.encodingVersion : Self.encodingVersionWithVectors)
        Self.appendVarint(UInt64(nodes.count), to: &out)
        for (index, node) in nodes.enumerated() {
            out.append(node.isDeleted ? 1 : 0)
            Self.appendVarint(node.parent < 0 ? 0 : UInt64(Int(node.parent) - index), to: &out)
            Self.appendVarint(node.generation, to: &out)
            out.append(UInt8(truncatingIfNeeded: node.digestCount))
            digests.withUnsafeBytes { all in
                out.append(contentsOf: UnsafeRawBufferPointer(rebasing: all[Int(node.digestStart)..<Int(node.digestStart + node.digestCount)]))
            }
        }
        if !vectors.isEmpty { encodeVectors(&out) }
        return out
    }

    private func encodeVectors(_ out: inout [UInt8]) {
        // In node order, so that equal trees are encoded equally.
        let kept = nodes.indices.compactMap { index -> (index: Int, vector: VersionVector)? in
            guard let vector = vectors[revision(at: index)] else { return nil }
            return (index, nodes[index].isLeaf ? vector : vector.bare)
        }
        Self.encode(kept, to: &out)
    }

    /// The stored form of a tree that has one revision, with its vector, which is the usual case. Nil for an id that cannot be in a tree.
    public static func encoded(_ revision: RevisionID, isDeleted: Bool, vector: VersionVector) -> [UInt8]? {
        guard revision.generation <= DocumentLimits.storedGeneration else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(96)
        out.append(encodingVersionWithVectors)
        appendVarint(1, to: &out)
        out.append(isDeleted ? 1 : 0)
        appendVarint(0, to: &out)
        appendVarint(revision.generation, to: &out)
        let isRead = withUnsafeTemporaryAllocation(byteCount: DocumentLimits.revisionDigestDigits / 2, alignment: 1) { scratch in
            guard let count = readDigest(of: revision, into: scratch) else { return false }
            out.append(UInt8(truncatingIfNeeded: count))
            out.append(contentsOf: UnsafeRawBufferPointer(rebasing: scratch[..<count]))
            return true
        }
        guard isRead else { return nil }
        encode([(0, vector)], to: &out)
        return out
    }

    private static func encode(_ kept: [(index: Int, vector: VersionVector)], to out: inout [UInt8]) {
        var authors = AuthorTable()
        for (_, vector) in kept { vector.forEachVersion { authors.add($0.source) } }
        appendVarint(UInt64(authors.order.count), to: &out)
        for author in authors.order { author.append(to: &out) }
        appendVarint(UInt64(kept.count), to: &out)
        for (index, vector) in kept {
            appendVarint(UInt64(index), to: &out)
            appendVarint(UInt64(vector.merged.count), to: &out)
            appendVarint(UInt64(vector.older.count), to: &out)
            vector.forEachVersion { version in
                appendVarint(UInt64(authors.place(of: version.source) ?? 0), to: &out)
                withUnsafeBytes(of: version.time.littleEndian) { out.append(contentsOf: $0) }
            }
        }
    }

    /// The authors of a tree's vectors, each once, in order of appearance. Most documents have one or two: hashing is used only for many.
    private struct AuthorTable {
        private static let searched = 8
        private(set) var order: [SourceID] = []
        private var places: [SourceID: Int] = [:]

        func place(of source: SourceID) -> Int? { order.count <= Self.searched ? order.firstIndex(of: source) : places[source] }

        mutating func add(_ source: SourceID) {
            guard place(of: source) == nil else { return }
            order.append(source)
            if order.count == Self.searched + 1 {
                for (place, source) in order.enumerated() { places[source] = place }
            } else if order.count > Self.searched {
                places[source] = order.count - 1
            }
        }
    }

    /// Decodes the stored form. Throws `.malformedEncoding`, `.unsupportedEncoding`, `.tooManyRevisions`.
    public init(decoding bytes: UnsafeRawBufferPointer) throws(RevisionTreeError) {
        var reader = Reader(bytes: bytes)
        let version = try reader.byte()
        guard version == Self.encodingVersion || version == Self.encodingVersionWithVectors else { throw .unsupportedEncoding(version: version) }
        let count = try reader.varint()
        guard count <= UInt64(DocumentLimits.treeRevisions) else {
            throw .tooManyRevisions(count: Int(clamping: count), limit: DocumentLimits.treeRevisions)
        }
        nodes.reserveCapacity(Int(count))
        digests.reserveCapacity(bytes.count)
        for index in 0..<Int(count) {
            let flags = try reader.byte()
            guard flags & ~1 == 0 else { throw reader.malformed("unknown flags \(flags)") }
            let distance = try reader.varint()
            guard distance < count - UInt64(index) else { throw reader.malformed("a parent outside the tree") }
            let generation = try reader.varint()
            guard generation >= 1, generation <= DocumentLimits.storedGeneration else { throw reader.malformed("generation \(generation)") }
            let length = Int(try reader.byte())
            guard length >= 1, length <= DocumentLimits.revisionDigestDigits / 2 else { throw reader.malformed("a digest of \(length) bytes") }
            let digest = try reader.take(length)
            if let previous = nodes.last, compare(previous, generation, digest) <= 0 {
                throw reader.malformed("revisions out of order")
            }
            nodes.append(
                Node(
                    generation: generation, digestStart: UInt32(digests.count), digestCount: UInt32(length),
                    parent: distance == 0 ? -1 : Int32(index) + Int32(distance), isDeleted: flags & 1 != 0, isLeaf: true))
            digests.append(contentsOf: digest)
        }
        if version == Self.encodingVersionWithVectors { try readVectors(&reader) }
        guard reader.at == bytes.count else { throw reader.malformed("bytes after the last revision") }
        for node in nodes where node.parent >= 0 {
            guard nodes[Int(node.parent)].generation < node.generation else { throw reader.malformed("a parent not older than its child") }
            nodes[Int(node.parent)].isLeaf = false
        }
    }

    private mutating func readVectors(_ reader: inout Reader) throws(RevisionTreeError) {
        func count(_ value: UInt64) throws(RevisionTreeError) -> Int {
            // Each counted item takes at least eight bytes, except for vectors with few versions.
            guard value <= UInt64(reader.bytes.count) else { throw reader.malformed("a count of \(value)") }
            return Int(value)
        }
        var authors: [SourceID] = []
        for _ in 0..<(try count(reader.varint())) {
            guard let author = SourceID(try reader.take(16)) else { throw reader.malformed("an author") }
            authors.append(author)
        }
        for _ in 0..<(try count(reader.varint())) {
            let index = try count(reader.varint())
            guard index < nodes.count else { throw reader.malformed("a version vector without a revision") }
            let (merged, older) = (try count(reader.varint()), try count(reader.varint()))
            var versions: [VectorVersion] = []
            for _ in 0..<(1 + merged + older) {
                let author = try count(reader.varint())
                guard author < authors.count else { throw reader.malformed("a version without an author") }
                let time = UInt64(littleEndian: try reader.take(8).loadUnaligned(as: UInt64.self))
                versions.append(VectorVersion(time: time, source: authors[author]))
            }
            let vector = VersionVector(stored: versions[0], merged: Array(versions[1..<(1 + merged)]), older: Array(versions[(1 + merged)...]))
            vectors.set(vector, of: revision(at: index))
        }
    }

    public init(decoding bytes: [UInt8]) throws(RevisionTreeError) {
        self = try bytes.withRawBytes { (raw) throws(RevisionTreeError) in try RevisionTree(decoding: raw) }
    }

    private static func appendVarint(_ value: UInt64, to out: inout [UInt8]) {
        Varint.write(value) { out.append($0) }
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var at = 0

        func malformed(_ reason: String) -> RevisionTreeError { .malformedEncoding(reason: reason, offset: at) }

        @inline(__always)
        mutating func byte() throws(RevisionTreeError) -> UInt8 {
            guard at < bytes.count else { throw malformed("it ends too early") }
            at += 1
            return bytes[at - 1]
        }

        @inline(__always)
        mutating func varint() throws(RevisionTreeError) -> UInt64 {
            let reading = Varint.read(bytes, at: at)
            guard reading.length != 0 else { throw malformed("it ends too early") }
            guard reading.length > 0, reading.value <= UInt64(Int64.max) else { throw malformed("a number beyond 63 bits") }
            at += reading.length
            return reading.value
        }

        @inline(__always)
        mutating func take(_ count: Int) throws(RevisionTreeError) -> UnsafeRawBufferPointer {
            guard bytes.count - at >= count else { throw malformed("it ends inside a digest") }
            at += count
            return UnsafeRawBufferPointer(rebasing: bytes[(at - count)..<at])
        }
    }
}
