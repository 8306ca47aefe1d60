// Coroutines without close (which has known bugs in Lua 5.4.4) and with a resume that cannot swallow a limit. A coroutine inherits the hook of its
// creator; a hook set later by the watch is handed over with control. A coroutine that ends in an error is left as it is: there is nothing to close,
// since plugins cannot create to-be-closed values.
#include "internal.h"

static int create(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static lua_State *checked(lua_State *L) {
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co != NULL, 1, "coroutine");
    return co;
}

static const char *status_of(lua_State *L, lua_State *co) {
    if (L == co) return "running";
    switch (lua_status(co)) {
    case LUA_YIELD: return "suspended";
    case LUA_OK: {
        lua_Debug ar;
        if (lua_getstack(co, 0, &ar)) return "normal";
        return lua_gettop(co) == 0 ? "dead" : "suspended";
    }
    default: return "dead";
    }
}

// Moves the arguments over and the results (or the error) back. Returns their number, or -1 with the error on top.
static int step(lua_State *L, lua_State *co, int arguments) {
    nj_state *S = nj_of(L);
    if (strcmp(status_of(L, co), "suspended") != 0) {
        lua_pushfstring(L, "cannot resume %s coroutine", strcmp(status_of(L, co), "dead") == 0 ? "dead" : "non-suspended");
        return -1;
    }
    if (!lua_checkstack(co, arguments + 1)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    lua_xmove(L, co, arguments);
    lua_State *before = S->running;
    S->running = co;
    nj_adopt_hook(co, S); // after the line above, so that a tick in between reaches one of them
    int results = 0;
    int status = lua_resume(co, L, arguments, &results);
    S->running = before;
    nj_adopt_hook(L, S);
    nj_note_status(S, status);
    if (S->limit != NJ_OK) return nj_raise_limit(L);
    if (status == LUA_OK || status == LUA_YIELD) {
        if (!lua_checkstack(L, results + 1)) {
            lua_pop(co, results);
            lua_pushliteral(L, "too many results to resume");
            return -1;
        }
        lua_xmove(co, L, results);
        return results;
    }
    lua_xmove(co, L, 1);
    return -1;
}

static int resume(lua_State *L) {
    lua_State *co = checked(L);
    int results = step(L, co, lua_gettop(L) - 1);
    lua_pushboolean(L, results >= 0);
    if (results < 0) results = 1;
    lua_insert(L, -(results + 1));
    return results + 1;
}

static int wrapped(lua_State *L) {
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    int results = step(L, co, lua_gettop(L));
    if (results >= 0) return results;
    return lua_error(L);
}

static int wrap(lua_State *L) {
    create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

static int yield(lua_State *L) { return lua_yield(L, lua_gettop(L)); }

static int status(lua_State *L) {
    lua_pushstring(L, status_of(L, checked(L)));
    return 1;
}

static int is_yieldable(lua_State *L) {
    lua_pushboolean(L, lua_isyieldable(L));
    return 1;
}

static int running(lua_State *L) {
    int is_main = lua_pushthread(L);
    lua_pushboolean(L, is_main);
    return 2;
}

void nj_open_coroutines(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"create", create}, {"resume", resume}, {"wrap", wrap}, {"yield", yield}, {"status", status},
        {"isyieldable", is_yieldable}, {"running", running}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
