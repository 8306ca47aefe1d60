// Calling transform.
#include "calls.h"

typedef struct {
    const nj_document *document;
    nj_use *use;
    int32_t decision;
} transform_call;

// Reads the result of transform; if it is not the document that was passed, the output contains the new one.
static int32_t read_transformed(lua_State *L, nj_state *S, int result, int results, uint64_t given) {
    S->is_result = true;
    if (results == 0) return nj_fail_result(L, "transform returned no value (a forgotten return?)");
    switch (lua_type(L, result)) {
    case LUA_TLIGHTUSERDATA: {
        uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, result);
        if (handle == given) return NJ_SAME;
        if (handle == NJ_HANDLE_DELETE || handle == NJ_HANDLE_NULL)
            return nj_fail_result(L, "transform returned no document; it returns doc or a table, a filter keeps documents back");
        nj_bytes raw = nj_slice(L, handle);
        if (*(const uint8_t *)raw.bytes != '{') return nj_fail_result(L, "transform returned an array; a document is an object");
        break;
    }
    case LUA_TTABLE: break;
    default: return nj_fail_result(L, "transform returned a %s; a document is a table", luaL_typename(L, result));
    }
    nj_encode(L, S, result, &S->output, (size_t)S->limits.result_bytes, "the transformed document", NJ_RETURNED);
    if (S->output.bytes[0] != '{') return nj_fail_result(L, "transform returned an array; a document is an object");
    return NJ_CHANGED;
}

static int run_transform(lua_State *L) {
    nj_state *S = nj_of(L);
    transform_call *call = lua_touserdata(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    nj_note_definition(L, S);
    lua_pop(L, 1);
    nj_set_flags(L, call->use, call->document->is_deleted ? 1 : 0);
    lua_pushvalue(L, lua_upvalueindex(1));
    int base = lua_gettop(L) - 1;
    uint64_t handle = nj_begin_document(S, 0, call->document);
    lua_pushlightuserdata(L, (void *)(uintptr_t)handle);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->use->context);
    lua_call(L, 2, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results > 1) lua_settop(L, base + 1);
    call->decision = read_transformed(L, S, base + 1, results, handle);
    return 0;
}

int nj_call_transform(nj_state *S, int32_t use, const nj_document *document, const nj_budget *budget, int32_t *decision) {
    int failure = nj_check_call(S, NJ_HOOK_TRANSFORM, use);
    if (failure == NJ_OK) failure = nj_check_body(S, document);
    if (failure != NJ_OK) return failure;
    nj_begin(S, budget);
    S->documents = NJ_OWN_DOCUMENTS;
    transform_call call = {document, &S->uses[use], NJ_SAME};
    failure = nj_call_hook(S, NJ_HOOK_TRANSFORM, run_transform, &call);
    *decision = call.decision;
    return failure;
}

// t.transform(doc, ctx?): returns the document as it would be sent.
int nj_test_transform(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    uint64_t handle = nj_make_test_document(L, S, 1, "the document");
    if (handle == 0) return luaL_error(L, "transform needs a document");
    nj_push_test_context(L, S, 2, nj_push_test_call(L, S, NJ_HOOK_TRANSFORM, handle));
    lua_call(L, 2, LUA_MULTRET);
    int32_t decision = read_transformed(L, S, 3, lua_gettop(L) - 2, handle);
    S->is_result = false;
    if (decision == NJ_CHANGED) nj_decode(L, S, (nj_bytes){S->output.bytes, S->output.length}, "the transformed document");
    else lua_pushvalue(L, 3);
    return 1;
}
