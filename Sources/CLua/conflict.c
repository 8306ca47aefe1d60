// The metatable of `conflict`: reading a member that no conflict has is an error. If it were nil, like a side that is deleted, a resolver with a
// misspelt member would delete documents that both sides have.
#include "calls.h"
#include "globals.h"

static const char *const members[] = {
    "id", "local_doc", "remote_doc", "base_doc", "local_rev", "remote_rev", "base_rev", "local_version", "remote_version", NULL};

// __index, called for what the table does not contain: table, name.
static int absent(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1;
    const char *name = lua_tostring(L, 2);
    for (int i = 0; members[i] != NULL; i++) {
        if (strcmp(members[i], name) == 0) return lua_pushnil(L), 1; // this conflict has none
    }
    nj_charge(L, S, 2048); // a script may catch the error and repeat the access
    luaL_checkstack(L, 8, "conflict");
    nj_nearest nearest;
    nj_seek_nearest(&nearest, name);
    for (int i = 0; members[i] != NULL; i++) nj_consider_name(&nearest, members[i]);
    char shown[40];
    size_t length = nearest.length < sizeof shown - 4 ? nearest.length : sizeof shown - 4;
    memcpy(shown, name, length);
    memcpy(shown + length, length < nearest.length ? "..." : "", length < nearest.length ? 4 : 1);
    if (nearest.distance < NJ_FAR) return luaL_error(L, "conflict has no '%s'; did you mean '%s'?", shown, nearest.found);
    return luaL_error(
        L, "conflict has no '%s'; it has id, local_doc, remote_doc, base_doc, local_rev, remote_rev, base_rev, local_version and remote_version", shown);
}

void nj_guard_conflict(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_conflict) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 2);
        lua_pushcfunction(L, absent);
        lua_setfield(L, -2, "__index");
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_conflict);
    }
    lua_setmetatable(L, -2);
}

bool nj_is_conflict(lua_State *L, int index) {
    if (!lua_getmetatable(L, index)) return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_conflict);
    bool is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is;
}
