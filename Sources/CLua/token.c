// Calling token and get_session: the credentials that a replicator presents to the other side.
#include "calls.h"

enum { NJ_MAX_TOKEN = 8192 }; // servers limit headers to 16 KiB, often to 8

static bool is_sendable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7F) return false;
    }
    return length > 0;
}

// refused: characters that would terminate it in its context.
static void check_text(lua_State *L, int index, const char *hook, const char *what, const char *refused) {
    if (lua_type(L, index) != LUA_TSTRING) {
        nj_fail_result(L, "%s returned %s that is a %s; it is a text", hook, what, luaL_typename(L, index));
        return;
    }
    size_t length;
    const char *text = lua_tolstring(L, index, &length);
    if (length > NJ_MAX_TOKEN) nj_fail_result(L, "%s returned %s of %d bytes; %d are the most", hook, what, (int)length, NJ_MAX_TOKEN);
    else if (!is_sendable(text, length) || strpbrk(text, refused) != NULL)
        nj_fail_result(L, "%s returned %s that is empty, or has a character that a header cannot carry", hook, what);
}

static const char *key_on_stack(lua_State *L) { return lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : ""; }

// Validates the result of token, and leaves it in the output: a text, or {"expires_in": seconds, "token": text}.
static void read_token(lua_State *L, nj_state *S, int result, int results) {
    S->is_result = true;
    if (results == 0) {
        nj_fail_result(L, "token returned no value (a forgotten return?)");
    } else if (lua_type(L, result) == LUA_TSTRING) {
        check_text(L, result, "token", "a text", "");
    } else if (!lua_istable(L, result)) {
        nj_fail_result(L, "token returned a %s; it returns a text or { token = …, expires_in = seconds }", luaL_typename(L, result));
    } else {
        luaL_checkstack(L, 4, "token");
        bool has_token = false;
        lua_pushnil(L);
        while (lua_next(L, result)) {
            const char *key = key_on_stack(L);
            if (strcmp(key, "token") == 0) {
                has_token = true;
                check_text(L, lua_gettop(L), "token", "a table with a token", "");
            } else if (strcmp(key, "expires_in") == 0) {
                if (lua_type(L, -1) != LUA_TNUMBER || !(lua_tonumber(L, -1) >= 0))
                    nj_fail_result(L, "token returned an expires_in that is not a number of seconds");
            } else {
                nj_fail_result(L, "token returned a table with '%s'; it has token and expires_in", key);
            }
            lua_pop(L, 1);
        }
        if (!has_token) nj_fail_result(L, "token returned a table without token");
    }
    nj_encode(L, S, result, &S->output, (size_t)S->limits.block, "the token", NJ_VALUE);
}

// Replaces the time on top by seconds since 1970.
static void read_time(lua_State *L) {
    if (lua_type(L, -1) == LUA_TSTRING) {
        lua_pushcfunction(L, nj_time_parse);
        lua_insert(L, -2);
        lua_call(L, 1, 1);
    }
    if (lua_type(L, -1) != LUA_TNUMBER || !(lua_tonumber(L, -1) >= 0))
        nj_fail_result(L, "get_session returned an expires that is not a time: an ISO 8601 text, or seconds since 1970 as nightjar.time.now() gives them");
}

// Validates the result of get_session, and leaves it in the output: {"cookie_name": text, "expires": seconds since 1970, "session_id": text}, of
// which the first two are optional.
static void read_session(lua_State *L, nj_state *S, int result, int results) {
    S->is_result = true;
    if (results == 0) {
        nj_fail_result(L, "get_session returned no value (a forgotten return?)");
        return;
    }
    if (!lua_istable(L, result)) {
        nj_fail_result(L, "get_session returned a %s; it returns { session_id = …, cookie_name = …, expires = … }", luaL_typename(L, result));
        return;
    }
    luaL_checkstack(L, 8, "get_session");
    bool has_session = false;
    lua_createtable(L, 0, 3);
    int session = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, result)) {
        const char *key = key_on_stack(L);
        if (strcmp(key, "session_id") == 0) {
            has_session = true;
            check_text(L, lua_gettop(L), "get_session", "a session_id", ";");
        } else if (strcmp(key, "cookie_name") == 0) {
            check_text(L, lua_gettop(L), "get_session", "a cookie_name", "()<>@,;:\\\"/[]?={}");
        } else if (strcmp(key, "expires") == 0) {
            read_time(L);
        } else {
            nj_fail_result(L, "get_session returned a table with '%s'; it has session_id, cookie_name and expires", key);
        }
        lua_setfield(L, session, key);
    }
    if (!has_session) nj_fail_result(L, "get_session returned a table without session_id");
    nj_encode(L, S, session, &S->output, (size_t)S->limits.block, "the session", NJ_VALUE);
}

static void read_login(lua_State *L, nj_state *S, int hook, int result, int results) {
    if (hook == NJ_HOOK_TOKEN) read_token(L, S, result, results);
    else read_session(L, S, result, results);
}

typedef struct {
    int hook, context;
} login_call;

static int run_login(lua_State *L) {
    nj_state *S = nj_of(L);
    const login_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int base = lua_gettop(L) - 1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, 1, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    read_login(L, S, call->hook, base + 1, results);
    return 0;
}

static int call_login(nj_state *S, int hook, int32_t use, const nj_budget *budget) {
    int failure = nj_check_call(S, hook, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    login_call call = {hook, S->uses[use].context};
    return nj_call_hook(S, hook, run_login, &call);
}

int nj_call_token(nj_state *S, int32_t use, const nj_budget *budget) { return call_login(S, NJ_HOOK_TOKEN, use, budget); }

int nj_call_session(nj_state *S, int32_t use, const nj_budget *budget) { return call_login(S, NJ_HOOK_SESSION, use, budget); }

// t.token(ctx?), t.get_session(ctx?): return what the hook returned.
static int test_login(lua_State *L, int hook) {
    nj_state *S = nj_of(L);
    lua_settop(L, 1);
    nj_push_test_hook(L, S, hook);
    nj_push_test_context(L, S, 1, false);
    lua_call(L, 1, LUA_MULTRET);
    read_login(L, S, hook, 2, lua_gettop(L) - 1);
    S->is_result = false;
    lua_pushvalue(L, 2);
    return 1;
}

int nj_test_token(lua_State *L) { return test_login(L, NJ_HOOK_TOKEN); }

int nj_test_session(lua_State *L) { return test_login(L, NJ_HOOK_SESSION); }
