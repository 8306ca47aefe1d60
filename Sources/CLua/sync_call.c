// Calling sync.
#include "sync.h"

static void begin_assignment(lua_State *L) {
    static const char *const objects[] = {"access", "roles"};
    lua_createtable(L, 0, 4);
    lua_newtable(L);
    nj_push_marker(L, true);
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "channels");
    for (int i = 0; i < 2; i++) {
        lua_newtable(L);
        nj_push_marker(L, false);
        lua_setmetatable(L, -2);
        lua_setfield(L, -2, objects[i]);
    }
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
}

static void end_assignment(lua_State *L) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_caller);
}

// sync returns nothing; a false would be a filter's answer, and would let the write pass.
static void check_result(lua_State *L, nj_state *S, int result, int results) {
    if (results == 0 || lua_isnil(L, result) || (lua_isboolean(L, result) && lua_toboolean(L, result))) return;
    S->is_result = true;
    nj_fail_result(L, "sync returned a %s; it returns nothing, and rejects a write by throw(reason)", luaL_typename(L, result));
}

typedef struct {
    const nj_document *document, *old;
    nj_bytes caller;
    nj_use *use;
} sync_call;

static int run_sync(lua_State *L) {
    nj_state *S = nj_of(L);
    sync_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    lua_pop(L, 1);
    begin_assignment(L);
    nj_decode(L, S, call->caller, "the caller");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_caller);
    nj_set_flags(L, call->use, call->document->is_deleted ? 1 : 0);

    lua_pushvalue(L, lua_upvalueindex(1));
    int base = lua_gettop(L) - 1;
    lua_pushlightuserdata(L, (void *)(uintptr_t)nj_begin_document(S, 0, call->document));
    if (call->old->is_present) lua_pushlightuserdata(L, (void *)(uintptr_t)nj_begin_document(S, 1, call->old));
    else lua_pushnil(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->use->context);
    lua_call(L, 3, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    if (S->sync->rejected) return 0;
    check_result(L, S, base + 1, results);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
    nj_encode(L, S, -1, &S->output, (size_t)S->limits.block, "what sync assigned", NJ_VALUE);
    end_assignment(L);
    return 0;
}

int nj_call_sync(
    nj_state *S, int32_t use, const nj_document *document, const nj_document *old, nj_bytes caller, const nj_budget *budget,
    int32_t *verdict) {
    int failure = nj_check_call(S, NJ_HOOK_SYNC, use);
    if (failure == NJ_OK) failure = nj_check_body(S, document);
    if (failure == NJ_OK) failure = nj_check_body(S, old);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    S->documents = NJ_OWN_DOCUMENTS; // the slot of an absent old document stays unused
    struct nj_sync sync = {.rejected = false};
    S->sync = &sync;
    sync_call call = {document, old, caller, &S->uses[use]};
    failure = nj_call_hook(S, NJ_HOOK_SYNC, run_sync, &call);
    S->sync = NULL;
    *verdict = NJ_SYNC_ACCEPTED;
    // An exhausted limit is a failure even after a rejection: the plugin may have had more to say.
    if (!sync.rejected || (failure != NJ_OK && failure != NJ_ERROR)) return failure;
    *verdict = NJ_SYNC_REJECTED;
    S->output.length = 0;
    if (!nj_buffer_append(&S->output, sync.reason, sync.reason_length)) {
        static const char text[] = "the host is out of memory";
        nj_set_message(S, "", text, sizeof text - 1);
        return NJ_MEMORY;
    }
    return NJ_OK;
}

// MARK: t.sync

// t.sync takes the caller from ctx: user, roles, channels and admin.
static void push_test_caller(lua_State *L, int ctx) {
    static const char *const fields[][2] = {{"user", "name"}, {"roles", "roles"}, {"channels", "channels"}, {"admin", "is_admin"}};
    lua_createtable(L, 0, 4);
    if (!lua_istable(L, ctx)) return;
    for (int i = 0; i < 4; i++) {
        lua_pushstring(L, fields[i][0]);
        lua_rawget(L, ctx);
        lua_setfield(L, -2, fields[i][1]);
    }
}

// t.sync(doc, old_doc?, ctx?): returns the assignments, or false and the reason.
int nj_test_sync(lua_State *L) {
    nj_state *S = nj_of(L);
    if (S->sync != NULL) return luaL_error(L, "t.sync cannot be called inside of sync");
    lua_settop(L, 3);
    uint64_t document = nj_make_test_document(L, S, 1, "the document");
    if (document == 0) return luaL_error(L, "sync needs a document");
    uint64_t old = nj_make_test_document(L, S, 2, "the old document");
    begin_assignment(L);
    push_test_caller(L, 3);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_caller);
    bool is_deleted = nj_push_test_call(L, S, NJ_HOOK_SYNC, document); // 4 and 5
    if (old != 0) lua_pushlightuserdata(L, (void *)(uintptr_t)old);
    else lua_pushnil(L);
    nj_push_test_context(L, S, 3, is_deleted);
    struct nj_sync sync = {.rejected = false};
    S->sync = &sync;
    int status = lua_pcall(L, 3, LUA_MULTRET, 0);
    S->sync = NULL;
    nj_note_status(S, status);
    if (S->limit != NJ_OK) return nj_raise_limit(L);
    if (sync.rejected) {
        lua_pushboolean(L, 0);
        lua_pushlstring(L, sync.reason, sync.reason_length);
        return 2;
    }
    if (status != LUA_OK) return lua_error(L);
    check_result(L, S, 4, lua_gettop(L) - 3);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
    end_assignment(L);
    return 1;
}
