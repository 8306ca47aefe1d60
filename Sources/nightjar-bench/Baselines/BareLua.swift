import CSystemLua

/// A Lua state as created by its library, without any sandbox: the minimum cost of calling into Lua.
final class BareLua {
    private let state: OpaquePointer

    init() throws {
        guard let state = luaL_newstate() else { throw BenchError("Lua has no memory for a state") }
        self.state = state
        let source = "return function() end"
        guard luaL_loadstring(state, source) == LUA_OK, lua_pcallk(state, 0, 1, 0, 0, nil) == LUA_OK else {
            throw BenchError("Lua does not take: \(source)")
        }
    }

    deinit { lua_close(state) }

    /// `lua_pcall` of an empty Lua function.
    func callEmptyFunction(times: Int) {
        for _ in 0..<times {
            lua_pushvalue(state, 1)
            lua_pcallk(state, 0, 0, 0, 0, nil)
        }
    }
}
