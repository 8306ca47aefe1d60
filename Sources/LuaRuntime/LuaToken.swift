import CLua

/// The result of `token`.
public struct LuaToken: Sendable, Equatable {
    public var text: String
    /// How long it is valid, if the plugin says so.
    public var seconds: Double?

    public init(text: String, seconds: Double? = nil) { (self.text, self.seconds) = (text, seconds) }
}

extension LuaValue {
    fileprivate var double: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .number(let number): number
        default: nil
        }
    }
}

/// The result of `get_session`.
public struct LuaSession: Sendable, Equatable {
    public var id: String
    /// The name of its cookie, if the plugin says so.
    public var cookie: String?
    /// When it ends, in seconds since 1970, if the plugin says so.
    public var end: Double?

    public init(id: String, cookie: String? = nil, end: Double? = nil) { (self.id, self.cookie, self.end) = (id, cookie, end) }
}

extension LuaPluginState {
    /// Calls `token`.
    public func callToken(use: LuaUse, limits: LuaCallLimits = .filter) throws(LuaFailure) -> LuaToken {
        let reference = reference(of: use)
        var budget = limits.budget
        try check(nj_call_token(state, reference, &budget), state)
        let value = LuaValue(json: nj_output(state).array) ?? .missing
        guard let text = value.text ?? value["token"].text else {
            throw LuaFailure(kind: .result, message: "\(hookName(.token)): what it returned cannot be read")
        }
        return LuaToken(text: text, seconds: value["expires_in"].double)
    }

    /// Calls `get_session`.
    public func callSession(use: LuaUse, limits: LuaCallLimits = .filter) throws(LuaFailure) -> LuaSession {
        let reference = reference(of: use)
        var budget = limits.budget
        try check(nj_call_session(state, reference, &budget), state)
        let value = LuaValue(json: nj_output(state).array) ?? .missing
        guard let id = value["session_id"].text else {
            throw LuaFailure(kind: .result, message: "\(hookName(.getSession)): what it returned cannot be read")
        }
        return LuaSession(id: id, cookie: value["cookie_name"].text, end: value["expires"].double)
    }
}
