/// A revision as a hook sees it. Lua reads the bytes lazily; nothing is parsed before.
public struct LuaDocument: Sendable {
    public var id: String
    public var revision: String
    public var isDeleted: Bool
    /// UTF-8 JSON text of one object, without `_id` and `_rev`. Taken as validated when it was stored; bytes that are
    /// no JSON give an error in the plugin, never a read out of bounds. At most 64 MiB.
    public var body: [UInt8]

    public init(id: String, revision: String, isDeleted: Bool = false, body: [UInt8]) {
        self.id = id
        self.revision = revision
        self.isDeleted = isDeleted
        self.body = body
    }
}

/// Two or three revisions to decide between. A side is nil where it is deleted or its body is gone.
public struct LuaConflict: Sendable {
    public var id: String
    public var local: LuaDocument?
    public var remote: LuaDocument?
    public var base: LuaDocument?
    public var localRevision: String
    public var remoteRevision: String
    public var baseRevision: String?
    /// What peers of version vectors call both sides, where they have versions.
    public var localVersion: String?
    public var remoteVersion: String?

    public init(
        id: String, local: LuaDocument?, remote: LuaDocument?, base: LuaDocument?,
        localRevision: String, remoteRevision: String, baseRevision: String?,
        localVersion: String? = nil, remoteVersion: String? = nil
    ) {
        self.id = id
        self.local = local
        self.remote = remote
        self.base = base
        self.localRevision = localRevision
        self.remoteRevision = remoteRevision
        self.baseRevision = baseRevision
        (self.localVersion, self.remoteVersion) = (localVersion, remoteVersion)
    }
}

/// What a resolver decided.
public enum LuaResolution: Sendable, Equatable {
    /// It returned `conflict.local_doc` itself: the document keeps its bytes.
    case local
    /// It returned `conflict.remote_doc` itself.
    case remote
    /// It returned `nightjar.delete`.
    case delete
    /// It returned a new table; the JSON bytes of an object, keys ascending.
    case merged([UInt8])
}

/// What an authenticator decided.
public enum LuaPrincipal: Sendable, Equatable {
    case refused
    /// `missing` for `true`; else the principal table as an object.
    case accepted(LuaValue)
}
