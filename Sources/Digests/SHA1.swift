import COpenSSL

/// SHA-1, the digest of revisions and blobs on the wire (replication.md sections 7 and 10). Not for security purposes.
public enum SHA1 {
    /// Digest length in bytes.
    public static let byteCount = 20

    public static func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] { DigestEngine.sha1.hash(bytes) }

    public static func hash(_ bytes: [UInt8]) -> [UInt8] { bytes.withUnsafeBytes { DigestEngine.sha1.hash($0) } }

    /// The digest of two concatenated pieces, written to `out` (at least `byteCount` bytes) without allocating.
    public static func hash(
        _ first: UnsafeRawBufferPointer,
        _ second: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        into out: UnsafeMutableRawBufferPointer
    ) {
        DigestEngine.sha1.hash(first, second, into: out)
    }
}

/// SHA-256.
public enum SHA256 {
    /// Digest length in bytes.
    public static let byteCount = 32

    public static func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] { DigestEngine.sha256.hash(bytes) }

    public static func hash(_ bytes: [UInt8]) -> [UInt8] { bytes.withUnsafeBytes { DigestEngine.sha256.hash($0) } }
}

/// SHA-1 over data that arrives in pieces, such as a blob being received. Not for concurrent use.
public final class SHA1Hasher {
    private let context = DigestEngine.sha1.makeContext()

    public init() { DigestEngine.sha1.start(context) }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: UnsafeRawBufferPointer) {
        if bytes.count > 0 { DigestEngine.sha1.update(context, bytes) }
    }

    public func update(_ bytes: some Collection<UInt8>) {
        let done: Void? = bytes.withContiguousStorageIfAvailable { update(UnsafeRawBufferPointer($0)) }
        if done == nil { Array(bytes).withUnsafeBytes { update($0) } }
    }

    /// The digest of everything so far; the hasher is reset afterwards.
    public func finalize() -> [UInt8] {
        let digest = [UInt8](unsafeUninitializedCapacity: SHA1.byteCount) { out, count in
            DigestEngine.sha1.finish(context, into: UnsafeMutableRawBufferPointer(out))
            count = SHA1.byteCount
        }
        DigestEngine.sha1.start(context)
        return digest
    }
}

/// SHA-256 over data that arrives in pieces. Not for concurrent use.
public final class SHA256Hasher {
    private let context = DigestEngine.sha256.makeContext()

    public init() { DigestEngine.sha256.start(context) }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: [UInt8]) {
        if !bytes.isEmpty { bytes.withUnsafeBytes { DigestEngine.sha256.update(context, $0) } }
    }

    /// The digest of everything so far; the hasher is reset afterwards.
    public func finalize() -> [UInt8] {
        let digest = [UInt8](unsafeUninitializedCapacity: SHA256.byteCount) { out, count in
            DigestEngine.sha256.finish(context, into: UnsafeMutableRawBufferPointer(out))
            count = SHA256.byteCount
        }
        DigestEngine.sha256.start(context)
        return digest
    }
}

/// For clients that identify attachments by MD5, as CouchDB's do; it proves nothing about the origin of the bytes.
public enum MD5 {
    public static let byteCount = 16

    public static func hash(_ bytes: [UInt8]) -> [UInt8] { bytes.withUnsafeBytes { DigestEngine.md5.hash($0) } }
}

/// MD5 over data that arrives in pieces.
public final class MD5Hasher {
    private let context = DigestEngine.md5.makeContext()

    public init() { DigestEngine.md5.start(context) }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: [UInt8]) {
        if !bytes.isEmpty { bytes.withUnsafeBytes { DigestEngine.md5.update(context, $0) } }
    }

    public func finalize() -> [UInt8] {
        let digest = [UInt8](unsafeUninitializedCapacity: MD5.byteCount) { out, count in
            DigestEngine.md5.finish(context, into: UnsafeMutableRawBufferPointer(out))
            count = MD5.byteCount
        }
        DigestEngine.md5.start(context)
        return digest
    }
}
