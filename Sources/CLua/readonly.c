// Read-only views of tables, for `ctx`: an empty userdata whose __index is the hidden table, so that reading a field is as cheap as from a table, and
// rawset has nothing to write to.
#include "internal.h"

bool nj_is_readonly(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index)) return false;
    bool is = lua_rawgetp(L, -1, &nj_key_readonly) != LUA_TNIL;
    lua_pop(L, 2);
    return is;
}

void nj_push_readonly_table(lua_State *L, int index) { lua_getiuservalue(L, index, 1); }

static int readonly_newindex(lua_State *L) {
    nj_push_text(L, 2);
    return luaL_error(L, "ctx is read-only: cannot set '%s'", lua_tostring(L, -1));
}

static int readonly_len(lua_State *L) {
    lua_getiuservalue(L, 1, 1);
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, -1));
    return 1;
}

static int readonly_next(lua_State *L) {
    lua_settop(L, 2);
    lua_getiuservalue(L, 1, 1);
    lua_insert(L, 2);
    if (lua_next(L, 2)) return 2;
    lua_pushnil(L);
    return 1;
}

static int checked_next(lua_State *L) {
    if (!nj_is_readonly(L, 1)) return luaL_argerror(L, 1, "not what pairs was given");
    return readonly_next(L);
}

static int readonly_pairs(lua_State *L) {
    lua_pushcfunction(L, checked_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

// The depth is limited by the decoder.
void nj_wrap_readonly(lua_State *L) {
    luaL_checkstack(L, 8, "ctx");
    int table = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (!lua_istable(L, -1)) {
            lua_pop(L, 1);
            continue;
        }
        nj_wrap_readonly(L);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, table); // of an existing field: allowed during a traversal
    }
    (void)lua_newuserdatauv(L, 0, 1);
    lua_pushvalue(L, table);
    lua_setiuservalue(L, -2, 1);
    lua_createtable(L, 0, 6);
    lua_pushvalue(L, table);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, readonly_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, readonly_len);
    lua_setfield(L, -2, "__len");
    lua_pushcfunction(L, readonly_pairs);
    lua_setfield(L, -2, "__pairs");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, &nj_key_readonly);
    lua_setmetatable(L, -2);
    lua_replace(L, table);
}
