/// The identifier of a revision, kept as its original text. There are two kinds: `generation-digest` in revision trees, and `time@source` in version
/// vectors. Databases store the first kind; the second names the same revisions for peers with version vectors.
public struct RevisionID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public enum Kind: Sendable { case tree, version }

    public let text: String
    /// For a tree revision: 1 for the first. 0 for the other kind.
    public let generation: UInt64

    public var kind: Kind { generation == 0 ? .version : .tree }

    /// Parses a tree revision: a decimal generation from 1 to `DocumentLimits.receivedGeneration` without leading zero, `-`, and an even number, 2 to
    /// 128, of lowercase hexadecimal digits (replication.md section 7: Core refuses anything else).
    public init(_ text: some StringProtocol) throws(RevisionIDError) {
        try self.init(text, largest: DocumentLimits.receivedGeneration)
    }

    /// Like `init(_:)`, for a text that names a stored revision: it may have a greater generation, created by local edits or accepted by an older
    /// version.
    public init(known text: some StringProtocol) throws(RevisionIDError) {
        try self.init(text, largest: DocumentLimits.storedGeneration)
    }

    private init(_ text: some StringProtocol, largest: UInt64) throws(RevisionIDError) {
        var owned = String(text)
        owned.makeContiguousUTF8()
        switch owned.withBytes({ Self.check($0, largest: largest) }) {
        case .success(let generation): self.generation = generation
        case .failure(let error): throw error
        }
        self.text = owned
    }

    /// The name of a revision for peers with version vectors.
    public init(_ version: VectorVersion) { (text, generation) = (version.description, 0) }

    /// Parses what a peer with version vectors sends: a version, or the id of a revision that has none.
    public init(named text: some StringProtocol) throws(VersionError) {
        if text.utf8.contains(UInt8(ascii: "@")) {
            self.init(try VectorVersion(text))
        } else {
            do throws(RevisionIDError) { try self.init(text) } catch { throw .badRevision(error) }
        }
    }

    /// A peer's name for a tree revision that has no version.
    public func named(_ naming: RevisionNaming) -> RevisionID {
        naming == .versionsOnly && kind == .tree ? RevisionID(VectorVersion(standingFor: self)) : self
    }

    /// Nil for a tree revision.
    public var version: VectorVersion? { kind == .version ? try? VectorVersion(text) : nil }

    /// Like `init(_:)`, from bytes.
    public init(utf8 bytes: UnsafeRawBufferPointer) throws(RevisionIDError) {
        let generation: UInt64
        switch Self.check(bytes.assumingMemoryBound(to: UInt8.self), largest: DocumentLimits.receivedGeneration) {
        case .success(let value): generation = value
        case .failure(let error): throw error
        }
        self.generation = generation
        text = String(decoding: bytes, as: UTF8.self)  // all ASCII after the check
    }

    /// Checks a tree revision as ``init(utf8:)`` does, without creating a value.
    static func check(_ bytes: UnsafeRawBufferPointer) throws(RevisionIDError) {
        if case .failure(let error) = check(bytes.assumingMemoryBound(to: UInt8.self), largest: DocumentLimits.receivedGeneration) { throw error }
    }

    /// A revision that was checked before.
    init(checked bytes: UnsafeRawBufferPointer) {
        generation = Self.leadingNumber(bytes.assumingMemoryBound(to: UInt8.self))
        text = String(decoding: bytes, as: UTF8.self)
    }

    /// An id from our own database, which was checked before.
    public init(stored text: String) {
        self.text = text
        generation = text.withBytes { Self.leadingNumber($0) }
    }

    init(text: String, generation: UInt64) {
        self.text = text
        self.generation = generation
    }

    /// The part after the first `-` (the whole text of a version).
    public var digest: Substring {
        guard let dash = text.utf8.firstIndex(of: 0x2D) else { return text[...] }
        return text[text.utf8.index(after: dash)...]
    }

    public var description: String { text }

    public static func == (a: RevisionID, b: RevisionID) -> Bool {
        a.generation == b.generation && a.text.sameBytes(as: b.text)
    }

    /// By generation as a number, then by the bytes of the digest: the protocol's "greater revision id".
    public static func < (a: RevisionID, b: RevisionID) -> Bool {
        // With equal generations, the text before the dash is equal, so whole texts are ordered like their digests.
        a.generation != b.generation ? a.generation < b.generation : a.text.precedesBytes(of: b.text)
    }

    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(UInt8(0xFF))
    }

    // MARK: Reading

    private static func leadingNumber(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var number: UInt64 = 0
        for byte in bytes {
            if byte == 0x2D { return number }
            guard byte >= 0x30, byte <= 0x39, append(byte, to: &number, largest: DocumentLimits.storedGeneration) else { return 0 }
        }
        return 0
    }

    /// Returns false, leaving the number unchanged, if it would exceed `largest`.
    private static func append(_ digit: UInt8, to number: inout UInt64, largest: UInt64) -> Bool {
        let digit = UInt64(digit - 0x30)
        guard number <= (largest - digit) / 10 else { return false }
        number = number * 10 + digit
        return true
    }

    private static func check(_ bytes: UnsafeBufferPointer<UInt8>, largest: UInt64) -> Result<UInt64, RevisionIDError> {
        var generation: UInt64 = 0
        var at = 0
        while at < bytes.count, bytes[at] >= 0x30, bytes[at] <= 0x39 {
            if at == 0, bytes[0] == 0x30 { break }
            guard append(bytes[at], to: &generation, largest: largest) else {
                if isVersion(bytes) { return .failure(.isVersion(value: quoted(bytes))) }
                return .failure(.badGeneration(value: quoted(bytes)))
            }
            at += 1
        }
        guard at > 0, at < bytes.count, bytes[at] == 0x2D else {
            if isVersion(bytes) { return .failure(.isVersion(value: quoted(bytes))) }
            return .failure(.badGeneration(value: quoted(bytes)))
        }
        let digits = bytes.count - at - 1
        guard digits >= 2, digits <= DocumentLimits.revisionDigestDigits, digits & 1 == 0 else {
            return .failure(.badDigestLength(digits: digits, value: quoted(bytes)))
        }
        for index in (at + 1)..<bytes.count {
            let byte = bytes[index]
            guard (byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x66) else {
                return .failure(.badDigest(value: quoted(bytes)))
            }
        }
        return .success(generation)
    }

    /// Whether the text starts with a version of a version vector: hexadecimal time, `@`, 22 characters of source.
    private static func isVersion(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let sign = bytes.firstIndex(of: 0x40), sign >= 1, sign <= 16, bytes.count >= sign + 23 else { return false }
        return bytes[..<sign].allSatisfy {
            ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x61 && $0 <= 0x66) || ($0 >= 0x41 && $0 <= 0x46)
        }
    }
}

/// The rule that a revision id breaks; `value` is the id, escaped and shortened for a log line.
public enum RevisionIDError: Error, Equatable, Sendable, CustomStringConvertible {
    case badGeneration(value: String)
    case badDigestLength(digits: Int, value: String)
    case badDigest(value: String)
    /// A version of a version vector (Couchbase Lite 4), where a tree revision is expected.
    case isVersion(value: String)

    public var description: String {
        switch self {
        case .badGeneration(let value):
            "the revision id \(value) does not begin with a generation from 1 to \(DocumentLimits.receivedGeneration) (2^53 - 1) and \"-\""
        case .badDigestLength(let digits, let value):
            "the digest of revision id \(value) has \(digits) digits: it must have an even number, "
                + "2 to \(DocumentLimits.revisionDigestDigits) (revision_digest_digits)"
        case .badDigest(let value): "the digest of revision id \(value) is not lowercase hexadecimal"
        case .isVersion(let value):
            "the revision id \(value) is a version of a version vector (CBMobile_4), and this connection does not use that protocol"
        }
    }
}
