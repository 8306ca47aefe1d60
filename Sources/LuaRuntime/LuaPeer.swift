import CLua

extension LuaPluginState {
    /// Calls `authenticate_certificate`.
    ///
    /// - Parameter chain: an array of objects, the peer's own certificate first; their members are described in `nightjar.d.lua`.
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
