// Calling authenticate_certificate. A certificate is a table of plain values made anew for each call.
#include "calls.h"

typedef struct {
    nj_bytes chain;
    int context;
    int32_t verdict;
} certificate_call;

static int authenticate(lua_State *L) {
    nj_state *S = nj_of(L);
    certificate_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int base = lua_gettop(L) - 1;
    nj_decode(L, S, call->chain, "the certificate chain");
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, 2, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    call->verdict = nj_read_principal(L, S, base + 1, results, nj_hook_name(NJ_HOOK_CERTIFICATE));
    return 0;
}

int nj_call_certificate(nj_state *S, int32_t use, nj_bytes chain, const nj_budget *budget, int32_t *verdict) {
    int failure = nj_check_call(S, NJ_HOOK_CERTIFICATE, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    certificate_call call = {chain, S->uses[use].context, NJ_REFUSED};
    failure = nj_call_hook(S, NJ_HOOK_CERTIFICATE, authenticate, &call);
    *verdict = call.verdict;
    return failure;
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
