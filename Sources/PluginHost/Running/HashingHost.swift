import Digests
import LuaRuntime

/// A host that provides `nightjar.sha1` and similar functions, and hashes passwords.
protocol HashingHost: LuaHost {
    var passwords: PasswordService { get }
}

extension HashingHost {
    func sha1(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] { SHA1.hash(bytes) }
    func sha256(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] { SHA256.hash(bytes) }
    func hmacSHA256(key: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] {
        Digests.hmacSHA256(key: Array(key), message: Array(message))
    }
    func passwordHash(_ password: [UInt8]) throws(LuaHostRefusal) -> String { try passwords.hash(password) }
    func passwordVerify(_ password: [UInt8], hash: String) throws(LuaHostRefusal) -> Bool {
        try passwords.verify(password, hash: hash)
    }
}
