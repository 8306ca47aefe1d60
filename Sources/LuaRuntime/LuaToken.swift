import CLua

/// What `token` gave.
public struct LuaToken: Sendable, Equatable {
    public var text: String
    /// How long it is good, where the plugin says it.
    public var seconds: Double?

    public init(text: String, seconds: Double? = nil) { (self.text, self.seconds) = (text, seconds) }
}

extension LuaPluginState {
    /// Asks `token`.
    public func callToken(use: LuaUse, limits: LuaCallLimits = .filter) throws(LuaFailure) -> LuaToken {
        let reference = reference(of: use)
        var budget = limits.budget
        try check(nj_call_token(state, reference, &budget), state)
        let value = LuaValue(json: nj_output(state).array) ?? .missing
        guard let text = value.text ?? value["token"].text else {
            throw LuaFailure(kind: .result, message: "\(hookName(.token)): what it returned cannot be read")
        }
        switch value["expires_in"] {
        case .integer(let seconds): return LuaToken(text: text, seconds: Double(seconds))
        case .number(let seconds): return LuaToken(text: text, seconds: seconds)
        default: return LuaToken(text: text)
        }
    }
}
