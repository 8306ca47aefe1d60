import CLua

extension LuaPluginState {
    /// Calls `on_status` or `on_documents`.
    ///
    /// - Parameter news: JSON text, whose members are described in `nightjar.d.lua`.
    public func callObserver(_ hook: LuaHook, _ news: [UInt8], use: LuaUse, limits: LuaCallLimits = .resolver) throws(LuaFailure) {
        let reference = reference(of: use)
        let status = withBytes(news) { news in
            var budget = limits.budget
            return nj_call_observer(state, hook.index, reference, news, &budget)
        }
        try check(status, state)
    }
}
