import Encodings

extension LuaHost {
    public func log(level: LuaLogLevel, message: String, fields: LuaValue) {}
    public func logDropped(_ lines: Int) {}

    public func uuid() -> String {
        var bytes = environment.random.bytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for (index, byte) in bytes.enumerated() {
            if index == 4 || index == 6 || index == 8 || index == 10 { text.append(UInt8(ascii: "-")) }
            text.append(Hex.digit(byte >> 4))
            text.append(Hex.digit(byte & 15))
        }
        return String(decoding: text, as: UTF8.self)
    }

    public func now() -> Double { Double(environment.time.wallNanoseconds()) / 1e9 }

    public func sha1(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] {
        throw LuaHostRefusal("sha1 is not available here")
    }

    public func sha256(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] {
        throw LuaHostRefusal("sha256 is not available here")
    }

    public func hmacSHA256(key: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] {
        throw LuaHostRefusal("hmac_sha256 is not available here")
    }

    public func passwordHash(_ password: [UInt8]) throws(LuaHostRefusal) -> String {
        throw LuaHostRefusal("password.hash is not available here")
    }

    public func passwordVerify(_ password: [UInt8], hash: String) throws(LuaHostRefusal) -> Bool {
        throw LuaHostRefusal("password.verify is not available here")
    }

    public func get(collection: String?, id: String) throws(LuaHostRefusal) -> LuaDocument? {
        throw LuaHostRefusal("get is not available here: there is no database")
    }

    public func metric(_ kind: LuaMetricKind, name: String, value: Double, labels: LuaValue) throws(LuaHostRefusal) {}

    public func readState(key: String) throws(LuaHostRefusal) -> LuaValue {
        throw LuaHostRefusal("state is not available here: there is no database")
    }

    public func writeState(key: String, value: LuaValue) throws(LuaHostRefusal) {
        throw LuaHostRefusal("state is not available here: there is no database")
    }
}
