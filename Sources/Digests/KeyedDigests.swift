import COpenSSL

/// HMAC-SHA-256.
public func hmacSHA256(key: [UInt8], message: [UInt8]) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: SHA256.byteCount) { out, count in
        // OpenSSL interprets a null key as "the previous key", so an empty key needs an address.
        let keyBytes = key.isEmpty ? [0] : key
        let result = HMAC(EVP_sha256(), keyBytes, Int32(key.count), message, message.count, out.baseAddress, nil)
        guard result != nil else { fatalError("OpenSSL refused HMAC-SHA256") }
        count = SHA256.byteCount
    }
}

/// scrypt (RFC 7914): `n` a power of two, `length` in bytes. Throws `.scryptParameters` if the parameters exceed `DigestLimits` or OpenSSL refuses
/// them.
public func scrypt(password: [UInt8], salt: [UInt8], n: UInt64, r: UInt32, p: UInt32, length: Int) throws(DigestError) -> [UInt8] {
    guard n >= 2, n & (n - 1) == 0 else { throw .scryptParameters(reason: "n is \(n), which is not a power of two above 1") }
    guard r >= 1, p >= 1, length >= 1, length <= 1024 else {
        throw .scryptParameters(reason: "r = \(r), p = \(p), length = \(length): r and p are at least 1, length is 1 to 1024")
    }
    guard p <= DigestLimits.scryptParallelization else {
        throw .scryptParameters(reason: "p is \(p), more than scryptParallelization = \(DigestLimits.scryptParallelization)")
    }
    let (perBlock, overflow) = n.multipliedReportingOverflow(by: 128 * UInt64(r))
    guard !overflow, perBlock <= DigestLimits.scryptMemory else {
        throw .scryptParameters(reason: "n = \(n), r = \(r) need more memory than scryptMemory = \(DigestLimits.scryptMemory) bytes")
    }
    // OpenSSL also counts the p blocks and its own table.
    let allowance = perBlock + 128 * UInt64(r) * UInt64(p) + 1 << 20
    var done = false
    let key = [UInt8](unsafeUninitializedCapacity: length) { out, count in
        let passwordCount = password.count
        done = password.withUnsafeBytes { secret in
            EVP_PBE_scrypt(
                secret.baseAddress?.assumingMemoryBound(to: CChar.self), passwordCount,
                salt, salt.count, n, UInt64(r), UInt64(p), allowance, out.baseAddress, length
            ) == 1
        }
        count = done ? length : 0
    }
    guard done else {
        ERR_clear_error()
        throw .scryptParameters(reason: "OpenSSL refused n = \(n), r = \(r), p = \(p)")
    }
    return key
}

/// `count` bytes from OpenSSL's random generator, suitable for keys and salts.
public func randomBytes(_ count: Int) throws(DigestError) -> [UInt8] {
    guard count > 0 else { return [] }
    var done = false
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { out, initialized in
        done = RAND_bytes(out.baseAddress, Int32(clamping: count)) == 1
        initialized = done ? count : 0
    }
    guard done, count <= Int(Int32.max) else { throw .randomnessUnavailable }
    return bytes
}

/// Whether two byte strings are equal, in a time that depends only on their lengths.
public func constantTimeEquals(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.count == b.count && (a.isEmpty || CRYPTO_memcmp(a, b, a.count) == 0)
}
