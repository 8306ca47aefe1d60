// Calling a filter. The hot path: several documents are judged inside one protected call, without an allocation for each.
#include "calls.h"

#include <stdio.h>

typedef struct {
    const nj_document *documents;
    uint8_t *passed;
    size_t count, at;
    nj_use *use;
    int hook;
    bool is_silent; // the hook returned no value
} filter_run;

void nj_set_flags(lua_State *L, nj_use *use, uint32_t flags) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, use->flags);
    lua_pushboolean(L, (flags & 1) != 0);
    lua_setfield(L, -2, "deleted");
    lua_pushboolean(L, (flags & 2) != 0);
    lua_setfield(L, -2, "access_removed");
    lua_pop(L, 1);
    use->last_flags = flags;
}

// Arguments: the run, the hook, ctx.
static int run_filters(lua_State *L) {
    enum { hook = 2, context = 3, base = 3 };
    filter_run *run = lua_touserdata(L, 1);
    nj_state *S = nj_of(L);
    for (;;) {
        const nj_document *document = &run->documents[run->at];
        if (__builtin_expect(run->use->last_flags != document->flags, 0)) {
            nj_set_flags(L, run->use, document->flags);
        }
        uint64_t handle = nj_begin_document(S, 0, document);
        S->docs[0].number = (int32_t)run->at;
        lua_pushvalue(L, hook);
        lua_pushlightuserdata(L, (void *)(uintptr_t)handle);
        lua_pushvalue(L, context);
        lua_call(L, 2, LUA_MULTRET);
        if (__builtin_expect(S->limit != NJ_OK, 0)) return nj_raise_limit(L);
        if (__builtin_expect(lua_gettop(L) == base, 0)) {
            run->is_silent = true;
            return 0;
        }
        run->passed[run->at] = lua_toboolean(L, base + 1) != 0;
        lua_settop(L, base);
        // A long document ends the batch, so that the caller can check the clock.
        if (++run->at == run->count || __builtin_expect(S->ticks != 0, 0)) return 0;
        nj_next_question(S);
    }
}

static int silent(nj_state *S, int hook) {
    lua_pushvalue(S->L, 2 + hook);
    nj_note_definition(S->L, S);
    lua_settop(S->L, NJ_BASE);
    char text[120];
    int n = snprintf(text, sizeof text, "%s returned no value (a forgotten return?)", nj_hook_name(hook));
    nj_set_message(S, S->where, text, (size_t)n);
    nj_end(S, LUA_OK, NJ_RESULT);
    return NJ_RESULT;
}

int nj_call_filters(
    nj_state *S, int32_t hook, int32_t use, const nj_document *documents, size_t count, const nj_budget *budget,
    uint8_t *passed, size_t *answered) {
    *answered = 0;
    if (count == 0) return NJ_OK;
    int failure = nj_check_call(S, hook, use);
    // A document that is too large is detected when its turn comes.
    if (failure == NJ_OK) failure = nj_check_body(S, &documents[0]);
    for (size_t i = 1; i < count; i++) {
        if (documents[i].body.length > NJ_MAX_BODY) count = i;
    }
    if (__builtin_expect(failure != NJ_OK, 0)) return failure;
    nj_begin(S, budget);
    nj_use *u = &S->uses[use];
    lua_State *L = S->L;
    if (S->use_in_slot != use) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, u->context);
        lua_replace(L, NJ_BASE);
        S->use_in_slot = use;
    }
    filter_run run = {documents, passed, count, 0, u, hook, false};
    lua_pushcfunction(L, run_filters);
    lua_pushlightuserdata(L, &run);
    lua_pushvalue(L, 2 + hook);
    lua_pushvalue(L, NJ_BASE);
    int status = lua_pcall(L, 3, 0, 1);
    *answered = run.at;
    if (__builtin_expect(run.is_silent && status == LUA_OK, 0)) return silent(S, hook);
    return nj_end(S, status, NJ_ERROR);
}
