// Calling token: what a replicator shows to the other side.
#include "calls.h"

enum { NJ_MAX_TOKEN = 8192 }; // headers of servers end at 16 KiB, often at 8

static bool is_sendable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7F) return false;
    }
    return length > 0;
}

static void check_text(lua_State *L, int index, const char *what) {
    if (lua_type(L, index) != LUA_TSTRING) {
        nj_fail_result(L, "token returned %s that is a %s; it is a text", what, luaL_typename(L, index));
        return;
    }
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (length > NJ_MAX_TOKEN) nj_fail_result(L, "token returned %s of %d bytes; %d are the most", what, (int)length, NJ_MAX_TOKEN);
    else if (!is_sendable(text, length)) nj_fail_result(L, "token returned %s that is empty, or has a character that a header cannot carry", what);
}

// Checks what token gave, and leaves it in the output: a text, or {"expires_in": seconds, "token": text}.
static void read_token(lua_State *L, nj_state *S, int result, int results) {
    S->is_result = true;
    if (results == 0) {
        nj_fail_result(L, "token returned no value (a forgotten return?)");
    } else if (lua_type(L, result) == LUA_TSTRING) {
        check_text(L, result, "a text");
    } else if (!lua_istable(L, result)) {
        nj_fail_result(L, "token returned a %s; it returns a text or { token = …, expires_in = seconds }", luaL_typename(L, result));
    } else {
        luaL_checkstack(L, 4, "token");
        bool has_token = false;
        lua_pushnil(L);
        while (lua_next(L, result)) {
            const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
            if (strcmp(key, "token") == 0) {
                has_token = true;
                check_text(L, lua_gettop(L), "a table with a token");
            } else if (strcmp(key, "expires_in") == 0) {
                if (lua_type(L, -1) != LUA_TNUMBER || !(lua_tonumber(L, -1) >= 0))
                    nj_fail_result(L, "token returned an expires_in that is no number of seconds");
            } else {
                nj_fail_result(L, "token returned a table with '%s'; it has token and expires_in", key);
            }
            lua_pop(L, 1);
        }
        if (!has_token) nj_fail_result(L, "token returned a table without token");
    }
    nj_encode(L, S, result, &S->output, (size_t)S->limits.block, "the token", NJ_VALUE);
}

static int run_token(lua_State *L) {
    nj_state *S = nj_of(L);
    const int *context = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int base = lua_gettop(L) - 1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, *context);
    lua_call(L, 1, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    read_token(L, S, base + 1, results);
    return 0;
}

int nj_call_token(nj_state *S, int32_t use, const nj_budget *budget) {
    int failure = nj_check_call(S, NJ_HOOK_TOKEN, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    int context = S->uses[use].context;
    return nj_call_hook(S, NJ_HOOK_TOKEN, run_token, &context);
}

// t.token(ctx?): what it returned.
int nj_test_token(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 1);
    nj_push_test_hook(L, S, NJ_HOOK_TOKEN);
    nj_push_test_context(L, S, 1, false);
    lua_call(L, 1, LUA_MULTRET);
    read_token(L, S, 2, lua_gettop(L) - 1);
    S->is_result = false;
    lua_pushvalue(L, 2);
    return 1;
}
