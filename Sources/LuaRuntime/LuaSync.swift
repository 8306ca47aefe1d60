import CLua

/// The author of the write that `sync` judges, as checked by `require_user` and similar functions.
public struct LuaCaller: Sendable, Equatable {
    /// Nil for an anonymous peer.
    public var name: String?
    public var roles: [String]
    /// Channels that the peer may pull, by name; a `*` among them only stands for itself, as in Sync Gateway.
    public var channels: [String]
    /// The agent itself: every `require_…` succeeds.
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
    /// In order of the calls, without duplicates.
    public var channels: [String] = []
    /// Channels by user; a user that starts with `role:` is a role.
    public var access: [String: [String]] = [:]
    /// Roles by user, without the prefix `role:`.
    public var roles: [String: [String]] = [:]
    /// Seconds since 1970, UTC.
    public var expiry: Int64?

    public init() {}
}

/// The outcome of `sync`.
public enum LuaSyncOutcome: Sendable, Equatable {
    case accepted(LuaAssignment)
    /// The write must not be stored; the reason is one line for the peer.
    case rejected(reason: String)
}

extension LuaPluginState {
    /// Maximum number of channels and grants assigned by one call (`sync_entries`).
    public static let syncEntries = Int(NJ_MAX_SYNC_ENTRIES)

    /// Calls `sync`.
    ///
    /// - Parameter old: the revision to be replaced; nil if there is none or it is a deletion.
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
        if let name = LuaAssignment.ambiguousName(value) {
            return .rejected(
                reason: "the name \"\(name)\" is given twice, with its characters composed in different ways (Unicode NFC and NFD): write each channel, user and role in one way")
        }
        return .accepted(LuaAssignment(value))
    }
}

extension LuaAssignment {
    /// From the C side's object, whose names have been checked there.
    init(_ value: LuaValue) {
        channels = Self.texts(value["channels"])
        access = Self.lists(value["access"])
        roles = Self.lists(value["roles"])
        expiry = value["expiry"].integer
    }

    /// A channel, or a name to which something is granted, that differs from another one only in how its characters are composed. Swift considers the
    /// two equal: as one key, the first would get what was meant for the second.
    static func ambiguousName(_ value: LuaValue) -> String? {
        func names(_ value: LuaValue) -> [String] {
            guard case .object(let members) = value else { return [] }
            return members.map(\.key)
        }
        for list in [texts(value["channels"]), names(value["access"]), names(value["roles"])] {
            var seen: [String: String] = [:]
            for name in list {
                if let other = seen.updateValue(name, forKey: name), !other.utf8.elementsEqual(name.utf8) { return name }
            }
        }
        return nil
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
