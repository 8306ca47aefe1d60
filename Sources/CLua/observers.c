// Calling on_status and on_documents, which report what a replicator does. Their return values are ignored.
#include "calls.h"

typedef struct {
    int context;
    nj_bytes news;
} observer_call;

static int run_observer(lua_State *L) {
    nj_state *S = nj_of(L);
    const observer_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_decode(L, S, call->news, "what happened");
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, 2, 0);
    return 0;
}

int nj_call_observer(nj_state *S, int32_t hook, int32_t use, nj_bytes news, const nj_budget *budget) {
    int failure = nj_check_call(S, hook, use);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    observer_call call = {S->uses[use].context, news};
    return nj_call_hook(S, hook, run_observer, &call);
}

// t.on_status(status, ctx?), t.on_documents(documents, ctx?): return what the hook returned.
static int test_observer(lua_State *L, int hook) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    nj_push_test_hook(L, S, hook);
    nj_copy(L, 1);
    nj_push_test_context(L, S, 2, false);
    lua_call(L, 2, 1);
    return 1;
}

int nj_test_status(lua_State *L) { return test_observer(L, NJ_HOOK_STATUS); }

int nj_test_documents(lua_State *L) { return test_observer(L, NJ_HOOK_DOCUMENTS); }
