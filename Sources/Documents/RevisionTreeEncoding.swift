import Encodings

/// The stored form: a version byte, the number of nodes, then for each node, in descending order, its flags (1:
/// deleted), the distance to its parent's node (0: none), its generation, the length of its digest, and the digest.
/// Numbers are little-endian base-128 varints.
extension RevisionTree {
    static let encodingVersion: UInt8 = 1

    public func encode() -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(4 + digests.count + nodes.count * 6)
        out.append(Self.encodingVersion)
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
        return out
    }

    /// Reads the stored form. Throws `.malformedEncoding`, `.unsupportedEncoding`, `.tooManyRevisions`.
    public init(decoding bytes: UnsafeRawBufferPointer) throws(RevisionTreeError) {
        var reader = Reader(bytes: bytes)
        let version = try reader.byte()
        guard version == Self.encodingVersion else { throw .unsupportedEncoding(version: version) }
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
        guard reader.at == bytes.count else { throw reader.malformed("bytes after the last revision") }
        for node in nodes where node.parent >= 0 {
            guard nodes[Int(node.parent)].generation < node.generation else { throw reader.malformed("a parent not older than its child") }
            nodes[Int(node.parent)].isLeaf = false
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
