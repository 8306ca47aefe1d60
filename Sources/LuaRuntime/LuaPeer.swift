import CLua

extension LuaPluginState {
    /// Asks `authenticate_certificate`.
    ///
    /// - Parameter chain: an array of objects, the peer's own certificate first; `nightjar.d.lua` names their members.
    public func callCertificate(
        chain: LuaValue, use: LuaUse, limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> LuaPrincipal {
        var verdict: Int32 = 0
        let reference = reference(of: use)
        let status = withBytes(chain.jsonBytes) { chain in
            var budget = limits.budget
            return nj_call_certificate(state, reference, chain, &budget, &verdict)
        }
        try check(status, state)
        return try principal(verdict, .authenticateCertificate)
    }
}
