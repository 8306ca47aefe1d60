// Calling the authenticators: is this peer admitted, and as whom?
#include "calls.h"

// The peer's credentials: a name and a password, or a certificate chain (JSON), which becomes a table of plain values.
typedef struct {
    int hook, context;
    nj_bytes username, password, chain;
    int32_t verdict;
} peer_call;

int32_t nj_read_principal(lua_State *L, nj_state *S, int result, int results, const char *name) {
    S->is_result = true;
    if (results == 0) return nj_fail_result(L, "%s returned no value (a forgotten return?)", name);
    if (!lua_toboolean(L, result)) return NJ_REFUSED;
    if (lua_isboolean(L, result)) return NJ_ACCEPTED;
    if (!lua_istable(L, result))
        return nj_fail_result(L, "%s returned a %s; it must return true, false or a principal table", name, luaL_typename(L, result));
    nj_encode(L, S, result, &S->output, (size_t)S->limits.block, "the principal", NJ_VALUE);
    if (S->output.bytes[0] != '{') return nj_fail_result(L, "%s returned an array; a principal is a table with name, roles, …", name);
    return NJ_PRINCIPAL;
}

static int authenticate(lua_State *L) {
    nj_state *S = nj_of(L);
    peer_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int function = lua_gettop(L), base = function - 1;
    if (call->hook == NJ_HOOK_CERTIFICATE) {
        nj_decode(L, S, call->chain, "the certificate chain");
    } else {
        lua_pushlstring(L, call->username.bytes, call->username.length);
        lua_pushlstring(L, call->password.bytes, call->password.length);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, lua_gettop(L) - function, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    call->verdict = nj_read_principal(L, S, base + 1, results, nj_hook_name(call->hook));
    return 0;
}

static int call_authenticator(nj_state *S, int32_t use, const nj_budget *budget, peer_call *call, int32_t *verdict) {
    int failure = nj_check_call(S, call->hook, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    call->context = S->uses[use].context;
    call->verdict = NJ_REFUSED;
    failure = nj_call_hook(S, call->hook, authenticate, call);
    *verdict = call->verdict;
    return failure;
}

int nj_call_password(
    nj_state *S, int32_t use, nj_bytes username, nj_bytes password, const nj_budget *budget, int32_t *verdict) {
    peer_call call = {.hook = NJ_HOOK_PASSWORD, .username = username, .password = password};
    return call_authenticator(S, use, budget, &call, verdict);
}

int nj_call_certificate(nj_state *S, int32_t use, nj_bytes chain, const nj_budget *budget, int32_t *verdict) {
    peer_call call = {.hook = NJ_HOOK_CERTIFICATE, .chain = chain};
    return call_authenticator(S, use, budget, &call, verdict);
}

// t.authenticate_certificate(chain, ctx?): one certificate may stand for a chain of one.
int nj_test_certificate(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_rawlen(L, 1) == 0) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, 1);
        lua_rawseti(L, -2, 1);
        lua_replace(L, 1);
    }
    nj_push_test_hook(L, S, NJ_HOOK_CERTIFICATE);
    nj_copy(L, 1);
    nj_push_test_context(L, S, 2, false);
    lua_call(L, 2, LUA_MULTRET);
    nj_read_principal(L, S, 3, lua_gettop(L) - 2, nj_hook_name(NJ_HOOK_CERTIFICATE));
    S->is_result = false;
    lua_pushvalue(L, 3);
    return 1;
}
