import CLua

extension LuaPluginState {
    /// Calls `select_peer`.
    ///
    /// - Parameter peers: objects, each with a `name`; the other members are listed in `nightjar.d.lua`.
    /// - Returns: the name of one of them; nil to wait.
    public func callSelectPeer(_ peers: [LuaValue], use: LuaUse, limits: LuaCallLimits = .filter) throws(LuaFailure) -> String? {
        let reference = reference(of: use)
        var decision: Int32 = 0
        let status = withBytes(LuaValue.array(peers).jsonBytes) { peers in
            var budget = limits.budget
            return nj_call_select(state, reference, peers, &budget, &decision)
        }
        try check(status, state)
        guard Int(decision) == NJ_CHOSEN else { return nil }
        guard let name = LuaValue(json: nj_output(state).array)?.text else {
            throw LuaFailure(kind: .result, message: "\(hookName(.selectPeer)): what it returned cannot be read")
        }
        guard peers.contains(where: { $0["name"].text?.utf8.elementsEqual(name.utf8) == true }) else {
            throw LuaFailure(kind: .result, message: "\(hookName(.selectPeer)): it returned a name that none of the peers has: \(String(name.prefix(63)))")
        }
        return name
    }
}
