/// The part of `ctx` that is constant for one use of a plugin. Passed to `makeUse`, which builds the read-only table once; a call then sets only what
/// varies (`LuaCallContext`).
public struct LuaContext: Sendable, Equatable {
    /// An object: the validated parameters of this use.
    public var params: LuaValue
    public var database: String?
    public var scope: String?
    public var collection: String?
    /// "push" or "pull".
    public var direction: String?
    public var replicator: String?
    public var listener: String?
    /// URL or peer address.
    public var remote: String?
    /// Authenticated name.
    public var user: String?
    /// The protocol spoken with the peer, for instance "CBMobile_4".
    public var subprotocol: String?
    public var plugin: String
    /// Short content hash.
    public var version: String

    public init(
        params: LuaValue = .object([]), database: String? = nil, scope: String? = nil, collection: String? = nil,
        direction: String? = nil, replicator: String? = nil, listener: String? = nil, remote: String? = nil,
        user: String? = nil, subprotocol: String? = nil, plugin: String, version: String
    ) {
        self.params = params
        self.database = database
        self.scope = scope
        self.collection = collection
        self.direction = direction
        self.replicator = replicator
        self.listener = listener
        self.remote = remote
        self.user = user
        self.subprotocol = subprotocol
        self.plugin = plugin
        self.version = version
    }
}

/// The flags of one call: `ctx.flags.deleted`, `ctx.flags.access_removed`.
public struct LuaFlags: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let deleted = LuaFlags(rawValue: 1)
    public static let accessRemoved = LuaFlags(rawValue: 2)
}

/// A prepared `ctx`, valid for the state that created it (other states refuse it) until it is released.
public struct LuaUse: Sendable, Equatable {
    let reference: Int32
    let stateSerial: UInt64
}

extension LuaContext {
    /// The context as one object, as seen by Lua.
    var value: LuaValue {
        func text(_ text: String?) -> LuaValue { text.map { .text($0) } ?? .missing }
        return .members([
            ("params", params == .missing ? .object([]) : params), ("database", text(database)), ("scope", text(scope)),
            ("collection", text(collection)), ("direction", text(direction)), ("replicator", text(replicator)),
            ("listener", text(listener)), ("remote", text(remote)), ("user", text(user)), ("protocol", text(subprotocol)), ("plugin", text(plugin)),
            ("version", text(version)),
        ])
    }
}
