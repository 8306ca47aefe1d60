// Calling all hooks except filters (filters.c): nothing outside the one protected call allocates memory.
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>

void nj_note_definition(lua_State *L, nj_state *S) {
    lua_Debug ar;
    lua_pushvalue(L, -1);
    if (lua_getinfo(L, ">S", &ar) && ar.linedefined > 0) {
        char raw[120];
        int n = snprintf(raw, sizeof raw, "%s:%d: ", ar.short_src, ar.linedefined);
        size_t used = nj_escape_line(raw, n < (int)sizeof raw ? (size_t)n : sizeof raw - 1, S->where, sizeof S->where - 1);
        S->where[used] = 0;
    }
}

// MARK: Uses

static int make_use(lua_State *L) {
    nj_state *S = nj_of(L);
    const nj_bytes *context = lua_touserdata(L, 1);
    int slot = 0;
    while (slot < S->use_count && S->uses[slot].context != LUA_NOREF) slot++;
    nj_decode(L, S, *context, "ctx");
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "deleted");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "access_removed");
    lua_pushvalue(L, -1);
    int flags = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, "flags");
    nj_guard_context(L);
    nj_wrap_readonly(L);
    S->uses[slot].context = luaL_ref(L, LUA_REGISTRYINDEX);
    S->uses[slot].flags = flags;
    S->uses[slot].last_flags = 0;
    lua_pushinteger(L, slot);
    return 1;
}

static bool reserve_use(nj_state *S) {
    for (int i = 0; i < S->use_count; i++) {
        if (S->uses[i].context == LUA_NOREF) return true;
    }
    int count = S->use_count == 0 ? 4 : S->use_count * 2;
    nj_use *uses = realloc(S->uses, (size_t)count * sizeof *uses);
    if (uses == NULL) return false;
    for (int i = S->use_count; i < count; i++) uses[i] = (nj_use){LUA_NOREF, LUA_NOREF, 0};
    S->uses = uses;
    S->use_count = count;
    return true;
}

int nj_make_use(nj_state *S, nj_bytes context, int32_t *reference) {
    nj_budget budget = {1000000000, 50000000};
    if (!reserve_use(S)) {
        static const char text[] = "the host is out of memory";
        nj_set_message(S, "", text, sizeof text - 1);
        return NJ_MEMORY;
    }
    if (!nj_begin(S, &budget)) return NJ_ERROR;
    lua_pushcfunction(S->L, make_use);
    lua_pushlightuserdata(S->L, &context);
    int status = lua_pcall(S->L, 1, 1, 1);
    if (status == LUA_OK) {
        *reference = (int32_t)lua_tointeger(S->L, -1);
        lua_pop(S->L, 1);
    }
    return nj_end(S, status, NJ_ERROR);
}

void nj_release_use(nj_state *S, int32_t reference) {
    if (reference < 0 || reference >= S->use_count) return;
    nj_use *use = &S->uses[reference];
    if (use->context == LUA_NOREF) return;
    if (S->use_in_slot == reference) S->use_in_slot = -1; // its ctx stays alive until the next call replaces it
    // Both only write to existing slots.
    luaL_unref(S->L, LUA_REGISTRYINDEX, use->context);
    luaL_unref(S->L, LUA_REGISTRYINDEX, use->flags);
    *use = (nj_use){LUA_NOREF, LUA_NOREF, 0};
}

// MARK: Checks before a call

static int refuse_call(nj_state *S, const char *format, const char *name) {
    char text[200];
    int n = snprintf(text, sizeof text, format, name);
    nj_set_message(S, "", text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    return NJ_ERROR;
}

int nj_check_call(nj_state *S, int hook, int use) {
    if (S->in_call) return refuse_call(S, "the plugin is called again from inside its own call%s", "");
    if (hook < 0 || hook >= NJ_HOOKS || (S->hook_mask & 1u << hook) == 0)
        return refuse_call(S, "the plugin has no %s", hook >= 0 && hook < NJ_HOOKS ? nj_hook_name(hook) : "such hook");
    if (use < 0 || use >= S->use_count || S->uses[use].context == LUA_NOREF)
        return refuse_call(S, "the use of this plugin has been released%s", "");
    return NJ_OK;
}

int nj_check_body(nj_state *S, const nj_document *d) {
    if (d->is_present && d->body.length > NJ_MAX_BODY) return refuse_call(S, "the document is larger than 64 MiB%s", "");
    return NJ_OK;
}

// MARK: Resolvers

typedef struct {
    const nj_conflict *conflict;
    int context;
    int32_t decision;
} resolve_call;

static uint64_t give_document(lua_State *L, nj_state *S, int slot, const nj_document *d, const char *name) {
    if (!d->is_present) return 0;
    uint64_t handle = nj_begin_document(S, slot, d);
    lua_pushlightuserdata(L, (void *)(uintptr_t)handle);
    lua_setfield(L, -2, name);
    return handle;
}

static void give_text(lua_State *L, nj_bytes text, const char *name) {
    if (text.bytes == NULL) return;
    lua_pushlstring(L, text.bytes, text.length);
    lua_setfield(L, -2, name);
}

const char nj_returned_conflict[] =
    "resolve returned the conflict itself; return conflict.local_doc, conflict.remote_doc, a new table or nightjar.delete";

// Reads what the resolver returned at `result`; sets the decision and, for a merge, the output.
int32_t nj_read_resolution(lua_State *L, nj_state *S, int result, int results, uint64_t local, uint64_t remote) {
    S->is_result = true;
    if (results == 0) return nj_fail_result(L, "resolve returned no value (a forgotten return?)");
    switch (lua_type(L, result)) {
    case LUA_TNIL:
        return nj_fail_result(
            L, "resolve returned nil%s",
            local == 0 || remote == 0
                ? " (local_doc and remote_doc are nil when that side is deleted; return nightjar.delete to delete)"
                : "; return conflict.local_doc, conflict.remote_doc, a new table or nightjar.delete");
    case LUA_TLIGHTUSERDATA: {
        uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, result);
        if (handle == NJ_HANDLE_DELETE) return NJ_DELETE;
        if (handle == NJ_HANDLE_NULL) return nj_fail_result(L, "resolve returned nightjar.null");
        if (handle == local) return NJ_LOCAL;
        if (handle == remote) return NJ_REMOTE;
        nj_bytes raw = nj_slice(L, handle); // the base, or an object inside one
        if (*(const uint8_t *)raw.bytes != '{') return nj_fail_result(L, "resolve returned an array; a document is an object");
        nj_encode(L, S, result, &S->output, (size_t)S->limits.result_bytes, "the merged document", NJ_RETURNED);
        return NJ_MERGED;
    }
    case LUA_TTABLE: {
        nj_encode(L, S, result, &S->output, (size_t)S->limits.result_bytes, "the merged document", NJ_RETURNED);
        if (S->output.bytes[0] != '{') return nj_fail_result(L, "resolve returned an array; a document is an object");
        return NJ_MERGED;
    }
    default: return nj_fail_result(L, "resolve returned a %s; a document is a table", luaL_typename(L, result));
    }
}

static int resolve(lua_State *L) {
    nj_state *S = nj_of(L);
    resolve_call *call = lua_touserdata(L, 1);
    const nj_conflict *c = call->conflict;
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    int base = lua_gettop(L) - 1;
    lua_createtable(L, 0, 10);
    uint64_t local = give_document(L, S, 0, &c->local, "local_doc");
    uint64_t remote = give_document(L, S, 1, &c->remote, "remote_doc");
    give_document(L, S, 2, &c->base, "base_doc");
    give_text(L, c->id, "id");
    give_text(L, c->local_revision, "local_rev");
    give_text(L, c->remote_revision, "remote_rev");
    give_text(L, c->base_revision, "base_rev");
    give_text(L, c->local_version, "local_version");
    give_text(L, c->remote_version, "remote_version");
    nj_guard_conflict(L);
    // Kept, so that it is recognised when it is returned.
    int given = base + 1;
    lua_pushvalue(L, -1);
    lua_insert(L, given);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->context);
    lua_call(L, 2, LUA_MULTRET);
    int results = lua_gettop(L) - given;
    if (results > 1) lua_settop(L, given + 1);
    if (results > 0 && lua_rawequal(L, given, given + 1)) {
        S->is_result = true;
        return nj_fail_result(L, "%s", nj_returned_conflict);
    }
    call->decision = nj_read_resolution(L, S, given + 1, results, local, remote);
    return 0;
}

// The protected call of a function that has the hook as its upvalue.
typedef struct {
    lua_CFunction function;
    void *argument;
    int hook;
} hook_call;

static int enter_hook(lua_State *L) {
    const hook_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, call->function, 1);
    lua_pushlightuserdata(L, call->argument);
    lua_call(L, 1, 0);
    return 0;
}

int nj_call_hook(nj_state *S, int hook, lua_CFunction function, void *argument) {
    lua_State *L = S->L;
    hook_call call = {function, argument, hook};
    lua_pushcfunction(L, enter_hook);
    lua_pushlightuserdata(L, &call);
    lua_pushvalue(L, 2 + hook);
    return nj_end(S, lua_pcall(L, 2, 0, 1), NJ_ERROR);
}

int nj_call_resolve(nj_state *S, int32_t use, const nj_conflict *conflict, const nj_budget *budget, int32_t *decision) {
    int failure = nj_check_call(S, NJ_HOOK_RESOLVE, use);
    if (failure == NJ_OK) failure = nj_check_body(S, &conflict->local);
    if (failure == NJ_OK) failure = nj_check_body(S, &conflict->remote);
    if (failure == NJ_OK) failure = nj_check_body(S, &conflict->base);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    S->documents = NJ_OWN_DOCUMENTS; // slots of absent sides stay unused
    resolve_call call = {conflict, S->uses[use].context, 0};
    failure = nj_call_hook(S, NJ_HOOK_RESOLVE, resolve, &call);
    *decision = call.decision;
    return failure;
}

// MARK: Measuring

static int nothing(lua_State *L) {
    (void)L;
    return 0;
}

static int make_empty(lua_State *L) {
    nj_load_chunk(L, nj_of(L), (nj_bytes){"empty", 5}, (nj_bytes){"return function() end", 21});
    lua_call(L, 0, 1);
    return 1;
}

void nj_measure_empty_call(nj_state *S, int64_t times, bool is_lua) {
    lua_State *L = S->L;
    lua_pushcfunction(L, is_lua ? make_empty : nothing);
    if (is_lua && lua_pcall(L, 0, 1, 1) != LUA_OK) {
        lua_settop(L, NJ_BASE);
        return;
    }
    int function = lua_gettop(L);
    for (int64_t i = 0; i < times; i++) {
        lua_pushvalue(L, function);
        lua_pcall(L, 0, 0, 1);
    }
    lua_settop(L, NJ_BASE);
}

void nj_measure_without_limits(nj_state *S) {
    lua_sethook(S->L, NULL, 0, 0);
    S->hook_count = 0;
    S->unlimited = true;
}
