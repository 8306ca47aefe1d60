// Calls select_peer, which chooses the listener that a replicator connects to.
#include "calls.h"

typedef struct {
    int context;
    nj_bytes peers;
    int32_t decision;
} select_call;

// Checks the result of select_peer, and leaves the name in the output. Returns false if the replicator is to wait.
static bool read_selection(lua_State *L, nj_state *S, int result, int results) {
    S->is_result = true;
    if (results == 0) nj_fail_result(L, "select_peer returned no value (a forgotten return?); to wait it returns nil");
    else if (lua_type(L, result) != LUA_TSTRING && !lua_isnil(L, result))
        nj_fail_result(L, "select_peer returned a %s; it returns the name of a peer, or nil to wait", luaL_typename(L, result));
    if (lua_isnil(L, result)) return false;
    nj_encode(L, S, result, &S->output, (size_t)S->limits.block, "the peer", NJ_VALUE);
    return true;
}

static int run_select(lua_State *L) {
    nj_state *S = nj_of(L);
    select_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int base = lua_gettop(L) - 1;
    nj_decode(L, S, call->peers, "the peers");
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, 2, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    call->decision = read_selection(L, S, base + 1, results) ? NJ_CHOSEN : NJ_WAITS;
    return 0;
}

int nj_call_select(nj_state *S, int32_t use, nj_bytes peers, const nj_budget *budget, int32_t *decision) {
    int failure = nj_check_call(S, NJ_HOOK_SELECT, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    select_call call = {S->uses[use].context, peers, NJ_WAITS};
    failure = nj_call_hook(S, NJ_HOOK_SELECT, run_select, &call);
    *decision = call.decision;
    return failure;
}

// t.select_peer(peers, ctx?): the name, or nil.
int nj_test_select(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    nj_push_test_hook(L, S, NJ_HOOK_SELECT);
    nj_copy(L, 1);
    nj_push_test_context(L, S, 2, false);
    lua_call(L, 2, LUA_MULTRET);
    read_selection(L, S, 3, lua_gettop(L) - 2);
    S->is_result = false;
    lua_pushvalue(L, 3);
    return 1;
}
