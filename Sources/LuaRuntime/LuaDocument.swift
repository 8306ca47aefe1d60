/// A revision as seen by a hook. Lua reads the bytes lazily; nothing is parsed in advance.
public struct LuaDocument: Sendable {
    public var id: String
    public var revision: String
    public var isDeleted: Bool
    /// UTF-8 JSON text of one object, without `_id` and `_rev`. Assumed to have been validated when it was stored; invalid JSON causes an error in
    /// the plugin, never an out-of-bounds read. At most 64 MiB.
    public var body: [UInt8]

    public init(id: String, revision: String, isDeleted: Bool = false, body: [UInt8]) {
        self.id = id
        self.revision = revision
        self.isDeleted = isDeleted
        self.body = body
    }
}

/// The revisions in conflict and, if available, their ancestor. A side is nil if it is deleted or its body is no longer stored.
public struct LuaConflict: Sendable {
    public var id: String
    public var local: LuaDocument?
    public var remote: LuaDocument?
    public var base: LuaDocument?
    public var localRevision: String
    public var remoteRevision: String
    public var baseRevision: String?
    /// The versions of both sides for peers with version vectors, if they have any.
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

/// A resolver's decision.
public enum LuaResolution: Sendable, Equatable {
    /// It returned `conflict.local_doc` itself: the document keeps its bytes.
    case local
    /// It returned `conflict.remote_doc` itself.
    case remote
    /// It returned `nightjar.delete`.
    case delete
    /// It returned a new table, encoded as the JSON text of an object with ascending keys.
    case merged([UInt8])
}

/// An authenticator's decision.
public enum LuaPrincipal: Sendable, Equatable {
    case refused
    /// `missing` if it returned `true`; otherwise the principal table as an object.
    case accepted(LuaValue)
}
