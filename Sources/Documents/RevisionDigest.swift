import Digests

/// The ids of revisions made here, computed as in LiteCore 3.3 and later (replication.md section 7), so that the same edit made in two places yields
/// the same revision.
public enum RevisionDigest {
    /// The id of the child of `parent` (nil: a first revision) with this body. `canonicalBody` is the canonical JSON. The digest is the SHA-1 over:
    /// length of the parent's id in one byte, the id, the deleted flag in one byte, the body.
    public static func revision(parent: RevisionID?, deleted: Bool, canonicalBody: [UInt8]) -> RevisionID {
        canonicalBody.withUnsafeBytes { revision(parent: parent, deleted: deleted, canonicalBody: $0) }
    }

    public static func revision(parent: RevisionID?, deleted: Bool, canonicalBody: UnsafeRawBufferPointer) -> RevisionID {
        let generation = (parent?.generation ?? 0) + 1
        return withUnsafeTemporaryAllocation(byteCount: 320, alignment: 8) { scratch in
            let head = UnsafeMutableRawBufferPointer(rebasing: scratch[..<258])
            let digest = UnsafeMutableRawBufferPointer(rebasing: scratch[264..<284])
            var count = 0
            if let parent {
                // A checked id has at most 145 bytes; the length must fit one byte in any case.
                parent.text.withBytes { id in
                    count = min(id.count, 255)
                    UnsafeMutableRawBufferPointer(rebasing: head[1...]).copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(id)[..<count]))
                }
            }
            head[0] = UInt8(count)
            head[1 + count] = deleted ? 1 : 0
            SHA1.hash(UnsafeRawBufferPointer(rebasing: head[..<(count + 2)]), canonicalBody, into: digest)
            return RevisionID(text: text(generation, UnsafeRawBufferPointer(digest)), generation: generation)
        }
    }

    /// `generation-digest` with the digest in lowercase hexadecimal.
    static func text(_ generation: UInt64, _ digest: UnsafeRawBufferPointer) -> String {
        let hex: StaticString = "0123456789abcdef"
        return String(unsafeUninitializedCapacity: 21 + digest.count * 2) { out in
            var at = writeDecimal(generation, to: out)
            out[at] = 0x2D
            at += 1
            for byte in digest {
                out[at] = hex.utf8Start[Int(byte >> 4)]
                out[at + 1] = hex.utf8Start[Int(byte & 15)]
                at += 2
            }
            return at
        }
    }

    private static func writeDecimal(_ number: UInt64, to out: UnsafeMutableBufferPointer<UInt8>) -> Int {
        var digits = 1
        var rest = number / 10
        while rest > 0 {
            digits += 1
            rest /= 10
        }
        rest = number
        for index in stride(from: digits - 1, through: 0, by: -1) {
            out[index] = 0x30 + UInt8(rest % 10)
            rest /= 10
        }
        return digits
    }
}
