import Environment

/// Levels of `nightjar.log`.
public enum LuaLogLevel: Int32, Sendable {
    case debug = 0
    case info
    case warning
    case error
}

/// A host service's refusal; the text becomes the Lua error at the plugin's line.
public struct LuaHostRefusal: Error, Sendable, Equatable {
    public var message: String
    public init(_ message: String) { self.message = message }
}

/// Kinds of metrics that a plugin may write.
public enum LuaMetricKind: Int32, Sendable {
    case count = 0
    case gauge
}

/// The services behind `nightjar.*` that need the outside world. Called on the plugin's thread while Lua waits: they must not block for long, and
/// must not call the same state. Unimplemented services cause an error in Lua. Lua errors never pass through these functions; the C side raises them
/// after they have returned.
public protocol LuaHost: Sendable {
    /// The source of time and randomness for `nightjar.time` and `nightjar.uuid`.
    var environment: Environment { get }
    /// `nightjar.log.*` and `print` (info). One line, already escaped and shortened. `fields` is `missing` or an object.
    func log(level: LuaLogLevel, message: String, fields: LuaValue)
    /// Number of lines dropped because of the per-call limit; called at the end of a call.
    func logDropped(_ lines: Int)
    /// `nightjar.uuid()`: lower case RFC 4122 version 4.
    func uuid() -> String
    /// `nightjar.time.now()`: seconds since 1970, UTC.
    func now() -> Double
    func sha1(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8]
    func sha256(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8]
    func hmacSHA256(key: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8]
    func passwordHash(_ password: [UInt8]) throws(LuaHostRefusal) -> String
    func passwordVerify(_ password: [UInt8], hash: String) throws(LuaHostRefusal) -> Bool
    /// `nightjar.get(collection?, id)`: nil if there is no such document. `collection` nil: that of the call.
    func get(collection: String?, id: String) throws(LuaHostRefusal) -> LuaDocument?
    /// `nightjar.metrics.count/gauge`. `value` is finite; `labels` is `missing` or an object.
    func metric(_ kind: LuaMetricKind, name: String, value: Double, labels: LuaValue) throws(LuaHostRefusal)
    /// `nightjar.state[key]`.
    func readState(key: String) throws(LuaHostRefusal) -> LuaValue
    /// `nightjar.state[key] = value`; `missing` removes.
    func writeState(key: String, value: LuaValue) throws(LuaHostRefusal)
}

/// A host with nothing beyond the defaults: drops log lines and refuses what needs the outside world.
public struct LuaBareHost: LuaHost {
    public let environment: Environment
    public init(_ environment: Environment) { self.environment = environment }
}

/// A module loader's answer to `require`.
public enum LuaModule: Sendable {
    /// The source, and the name shown in errors, such as "lib/geo.lua".
    case source([UInt8], chunkName: String)
    /// The reason; becomes the Lua error.
    case refused(String)
}

/// Finds modules for `require`. The name has been checked: words of letters, digits, `_` and `-`, separated by dots, at most 100 bytes.
public protocol LuaModuleLoader: Sendable {
    func module(named name: String) -> LuaModule
}

/// No modules.
public struct LuaNoModules: LuaModuleLoader {
    public init() {}
    public func module(named name: String) -> LuaModule { .refused("no modules are available here") }
}
