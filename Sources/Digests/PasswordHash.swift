import Encodings
import Synchronization

/// Password hashes in text form: `$scrypt$ln=15,r=8,p=1$<base64 salt>$<base64 key>`.
public enum PasswordHash {
    /// log2 of scrypt's n for new hashes: about 60 ms and 32 MiB per guess, should a configuration be stolen.
    static let logN: UInt32 = 15
    static let saltBytes = 16
    static let keyBytes = 32

    /// A hash of the password with a new random salt. Throws `.passwordTooLong`, `.randomnessUnavailable`.
    public static func make(password: String) throws(DigestError) -> String {
        let salt = try randomBytes(saltBytes)
        let key = try derive(password, Parts(logN: logN, r: 8, p: 1, salt: salt, key: []), length: keyBytes)
        return "$scrypt$ln=\(logN),r=8,p=1$\(Base64.encode(salt))$\(Base64.encode(key))"
    }

    /// Whether the password matches this hash. Takes tens of milliseconds: never call it on an event loop. Throws `.malformedPasswordHash` or
    /// `.scryptParameters` for an invalid hash; a password that is too long simply does not match.
    public static func verify(password: String, hash: String) throws(DigestError) -> Bool {
        let parts = try parse(hash)
        guard password.utf8.count <= DigestLimits.passwordBytes else { return false }
        return constantTimeEquals(try derive(password, parts, length: parts.key.count), parts.key)
    }

    /// Checks the text of a hash without deriving a key, for configuration checks. Throws like `verify`.
    public static func validate(_ hash: String) throws(DigestError) { _ = try parse(hash) }

    private static let inUse = Atomic<Int>(0)
    /// Whoever asks for hashes, logins or plugins, they are computed one after the other: the memory of several would be as much as a gateway has.
    private static let turn = Mutex<Void>(())

    /// Memory that the computation of a hash takes at this moment, in bytes. It is allocated for each, and returned to the system at its end.
    public static var memoryInUse: Int { inUse.load(ordering: .relaxed) }

    private struct Parts {
        var logN: UInt32
        var r: UInt32
        var p: UInt32
        var salt: [UInt8]
        var key: [UInt8]
    }

    private static func derive(_ password: String, _ parts: Parts, length: Int) throws(DigestError) -> [UInt8] {
        let secret = Array(password.utf8)
        guard secret.count <= DigestLimits.passwordBytes else {
            throw .passwordTooLong(bytes: secret.count, limit: DigestLimits.passwordBytes)
        }
        // RFC 7914: n blocks of 128 * r bytes.
        let memory = (128 * Int(parts.r)) << Int(parts.logN)
        return try turn.withLock { _ throws(DigestError) in
            inUse.add(memory, ordering: .relaxed)
            defer { inUse.subtract(memory, ordering: .relaxed) }
            return try scrypt(password: secret, salt: parts.salt, n: 1 << UInt64(parts.logN), r: parts.r, p: parts.p, length: length)
        }
    }

    private static func parse(_ hash: String) throws(DigestError) -> Parts {
        guard hash.utf8.count <= DigestLimits.passwordHashTextBytes else {
            throw .malformedPasswordHash(
                reason: "it has \(hash.utf8.count) bytes, more than passwordHashTextBytes = \(DigestLimits.passwordHashTextBytes)")
        }
        let fields = hash.split(separator: "$", omittingEmptySubsequences: false)
        guard fields.count == 5, fields[0].isEmpty, fields[1] == "scrypt" else {
            throw .malformedPasswordHash(
                reason: "it is not five fields beginning with $scrypt$")
        }
        let parameters = fields[2].split(separator: ",", omittingEmptySubsequences: false)
        guard parameters.count == 3,
            let logN = number(parameters[0], after: "ln="), let r = number(parameters[1], after: "r="),
            let p = number(parameters[2], after: "p=")
        else { throw .malformedPasswordHash(reason: "its parameters are not ln=,r=,p= with whole numbers") }
        guard (1...30).contains(logN), (1...1024).contains(r), (1...DigestLimits.scryptParallelization).contains(p),
            (UInt64(128) * UInt64(r)) << UInt64(logN) <= DigestLimits.scryptMemory
        else {
            throw .scryptParameters(
                reason: "ln=\(logN),r=\(r),p=\(p) pass scryptMemory = \(DigestLimits.scryptMemory) bytes"
                    + " or scryptParallelization = \(DigestLimits.scryptParallelization)")
        }
        guard let salt = Base64.decode(fields[3]), DigestLimits.passwordHashFieldBytes.contains(salt.count) else {
            throw .malformedPasswordHash(
                reason: "its salt is not base64 of \(DigestLimits.passwordHashFieldBytes) bytes")
        }
        guard let key = Base64.decode(fields[4]), DigestLimits.passwordHashFieldBytes.contains(key.count) else {
            throw .malformedPasswordHash(
                reason: "its key is not base64 of \(DigestLimits.passwordHashFieldBytes) bytes")
        }
        return Parts(logN: logN, r: r, p: p, salt: salt, key: key)
    }

    private static func number(_ field: Substring, after name: String) -> UInt32? {
        guard field.hasPrefix(name) else { return nil }
        let digits = field.dropFirst(name.count)
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt32(digits)
    }
}
