// Charging stock functions whose cost grows with the length of their arguments, which no hook sees.
#include "internal.h"

static int charged(lua_State *L) {
    nj_state *S = nj_of(L);
    for (int i = 1; i <= 2; i++) {
        if (lua_type(L, i) == LUA_TSTRING) nj_charge(L, S, lua_rawlen(L, i) >> 1);
    }
    // Called as a plain C function, in this same frame, so that its errors name the script's line and the function.
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void nj_check_arguments(lua_State *L, nj_state *S) {
    size_t bytes = 0, most = (size_t)S->limits.block;
    for (int i = lua_gettop(L); i >= 1; i--) {
        if (lua_type(L, i) == LUA_TSTRING) bytes += lua_rawlen(L, i); // no overflow: 2^20 arguments of 2^30 bytes at most
    }
    if (bytes > most) luaL_error(L, "the texts given have more than %d bytes together (limit block)", (int)most);
    nj_charge(L, S, bytes >> 1);
}

// For functions with any number of text arguments. Passing one text many times takes no memory, but costs its length each time to read, and nothing
// can end the call in between: 60,000 times a million digits took two minutes.
static int charged_for_all(lua_State *L) {
    nj_check_arguments(L, nj_of(L));
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void nj_wrap_charged_for_all(lua_State *L) { lua_pushcclosure(L, charged_for_all, 1); }

void nj_wrap_charged(lua_State *L) { lua_pushcclosure(L, charged, 1); }
