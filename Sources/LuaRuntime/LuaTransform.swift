import CLua

extension LuaPluginState {
    /// Calls `transform`.
    ///
    /// - Returns: the JSON text of the document to send or store; nil if it is unchanged.
    public func callTransform(
        document: borrowing LuaDocument, use: LuaUse, limits: LuaCallLimits = .resolver
    ) throws(LuaFailure) -> [UInt8]? {
        var decision: Int32 = 0
        let reference = reference(of: use)
        let status = withDocument(document) { document in
            var (document, budget) = (document, limits.budget)
            return nj_call_transform(state, reference, &document, &budget, &decision)
        }
        try check(status, state)
        return Int(decision) == NJ_CHANGED ? nj_output(state).array : nil
    }
}
