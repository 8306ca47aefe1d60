import CLua

/// Who writes the document that `sync` looks at; what `require_user` and its like ask for.
public struct LuaCaller: Sendable, Equatable {
    /// Nil for a peer that nobody authenticated.
    public var name: String?
    public var roles: [String]
    /// Channels the peer may pull, by name; `*` among them stands for itself only, as in Sync Gateway.
    public var channels: [String]
    /// The agent itself: every `require_…` passes.
    public var isAdmin: Bool

    public init(name: String? = nil, roles: [String] = [], channels: [String] = [], isAdmin: Bool = false) {
        self.name = name
        self.roles = roles
        self.channels = channels
        self.isAdmin = isAdmin
    }

    var value: LuaValue {
        .members([
            ("name", name.map { .text($0) } ?? .missing), ("roles", .array(roles.map { .text($0) })),
            ("channels", .array(channels.map { .text($0) })), ("is_admin", .bool(isAdmin)),
        ])
    }
}

/// What `sync` assigned to a revision.
public struct LuaAssignment: Sendable, Equatable {
    /// In the order of the calls, each once.
    public var channels: [String] = []
    /// Channels by user; a user that begins with `role:` is a role.
    public var access: [String: [String]] = [:]
    /// Roles by user, without `role:` in front.
    public var roles: [String: [String]] = [:]
    /// Seconds since 1970, UTC.
    public var expiry: Int64?

    public init() {}
}

/// How `sync` ended.
public enum LuaSyncOutcome: Sendable, Equatable {
    case accepted(LuaAssignment)
    /// The write must not be stored; one line for the peer.
    case rejected(reason: String)
}

extension LuaPluginState {
    /// Channels and grants that one call may assign (`sync_entries`).
    public static let syncEntries = Int(NJ_MAX_SYNC_ENTRIES)

    /// Asks `sync`.
    ///
    /// - Parameter old: the revision that is replaced; nil where there is none or it is a deletion.
    public func callSync(
        document: borrowing LuaDocument, old: LuaDocument?, caller: LuaCaller, use: LuaUse, limits: LuaCallLimits = .resolver
    ) throws(LuaFailure) -> LuaSyncOutcome {
        var verdict: Int32 = 0
        let reference = reference(of: use)
        let status = withDocument(document) { document in
            withDocument(old) { old in
                withBytes(caller.value.jsonBytes) { caller in
                    var (document, old) = (document, old)
                    var budget = limits.budget
                    return nj_call_sync(state, reference, &document, &old, caller, &budget, &verdict)
                }
            }
        }
        try check(status, state)
        let output = nj_output(state).array
        if Int(verdict) == NJ_SYNC_REJECTED { return .rejected(reason: String(decoding: output, as: UTF8.self)) }
        guard let value = LuaValue(json: output) else {
            throw LuaFailure(kind: .result, message: "\(hookName(.sync)): what it assigned cannot be read")
        }
        return .accepted(LuaAssignment(value))
    }
}

extension LuaAssignment {
    /// From the C side's object, whose names are checked there.
    init(_ value: LuaValue) {
        channels = Self.texts(value["channels"])
        access = Self.lists(value["access"])
        roles = Self.lists(value["roles"])
        expiry = value["expiry"].integer
    }

    private static func texts(_ value: LuaValue) -> [String] {
        guard case .array(let items) = value else { return [] }
        return items.compactMap(\.text)
    }

    private static func lists(_ value: LuaValue) -> [String: [String]] {
        guard case .object(let members) = value else { return [:] }
        return Dictionary(members.map { ($0.key, texts($0.value)) }) { first, second in first + second }
    }
}
