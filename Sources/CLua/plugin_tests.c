// Plugin tests: NAME.test.lua returns named functions, each called with `t`, which calls the plugin's hooks in the same sandbox, on documents created
// from plain tables.
#include "calls.h"

#include <stdio.h>

typedef struct {
    nj_bytes first, second;
} arguments;

// MARK: Loading

static int load_tests(lua_State *L) {
    nj_state *S = nj_of(L);
    const arguments *a = lua_touserdata(L, 1);
    nj_load_chunk(L, S, a->first, a->second);
    lua_call(L, 0, 1);
    lua_pushlstring(L, a->first.bytes, a->first.length);
    const char *name = lua_tostring(L, -1);
    int table = 2;
    if (!lua_istable(L, table) || lua_getmetatable(L, table))
        return luaL_error(L, "%s: a test file must return a plain table of named functions", name);
    lua_newtable(L); // name -> true, for the list
    lua_newtable(L); // name -> function, which the file cannot change later
    int functions = lua_gettop(L), names = functions - 1;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_isfunction(L, -1))
            return luaL_error(
                L, "%s: every entry must be a name with a function; found a %s with a %s", name, luaL_typename(L, -2), luaL_typename(L, -1));
        lua_pushvalue(L, -2);
        lua_pushboolean(L, 1);
        lua_rawset(L, names);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, functions);
    }
    if (S->tests == LUA_NOREF) {
        S->tests = luaL_ref(L, LUA_REGISTRYINDEX);
    } else {
        lua_rawseti(L, LUA_REGISTRYINDEX, S->tests);
    }
    nj_encode(L, S, names, &S->output, (size_t)S->limits.block, name, NJ_VALUE);
    return 0;
}

int nj_load_tests(nj_state *S, nj_bytes chunk_name, nj_bytes source, const nj_budget *budget) {
    if (!nj_begin(S, budget)) return NJ_ERROR;
    S->loading = true;
    arguments a = {chunk_name, source};
    S->output.length = 0;
    return nj_end(S, nj_protected(S, load_tests, &a), NJ_LOAD);
}

// MARK: Documents and ctx from tables

static nj_bytes text_field(lua_State *L, int table, const char *name, const char *otherwise) {
    if (lua_istable(L, table)) {
        lua_pushstring(L, name);
        lua_rawget(L, table);
        if (lua_type(L, -1) == LUA_TSTRING) { // stays on the stack while it is used
            size_t length;
            const char *bytes = lua_tolstring(L, -1, &length);
            return (nj_bytes){bytes, length};
        }
        lua_pop(L, 1);
    }
    return (nj_bytes){otherwise, strlen(otherwise)};
}

// The document at index in the form passed to a hook: a handle of this call. nil stays nil (0).
uint64_t nj_make_test_document(lua_State *L, nj_state *S, int index, const char *what) {
    S->has_difference = false; // its bytes are in the same buffer
    if (lua_isnoneornil(L, index)) return 0;
    if (!lua_istable(L, index) && !nj_is_document(L, index)) luaL_error(L, "%s must be a table, not a %s", what, luaL_typename(L, index));
    luaL_checkstack(L, 8, what);
    index = lua_absindex(L, index);
    int top = lua_gettop(L);
    bool is_deleted = false;
    if (lua_istable(L, index)) {
        lua_pushliteral(L, "_deleted");
        lua_rawget(L, index);
        is_deleted = lua_toboolean(L, -1);
    }
    nj_encode(L, S, index, &S->output, (size_t)S->limits.result_bytes, what, NJ_GIVEN);
    if (S->output.bytes[0] != '{') luaL_error(L, "%s must be an object, not an array", what);
    nj_bytes id = text_field(L, index, "_id", "test"), revision = text_field(L, index, "_rev", "1-test");
    uint64_t handle = nj_keep_document(L, S, (nj_bytes){S->output.bytes, S->output.length}, revision, id, is_deleted);
    lua_settop(L, top);
    return handle;
}

// ctx: the given context (upvalue 1 of every function of `t`, JSON text), overridden by the fields of the table at index.
void nj_push_test_context(lua_State *L, nj_state *S, int index, bool is_deleted) {
    size_t length;
    const char *json = lua_tolstring(L, lua_upvalueindex(1), &length);
    nj_decode(L, S, (nj_bytes){json, length}, "ctx");
    int ctx = lua_gettop(L);
    lua_newtable(L);
    lua_pushboolean(L, is_deleted);
    lua_setfield(L, -2, "deleted");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "access_removed");
    lua_setfield(L, ctx, "flags");
    if (!lua_isnoneornil(L, index)) {
        luaL_checktype(L, index, LUA_TTABLE);
        nj_copy(L, index);
        nj_check_test_context(L, ctx + 1);
        lua_pushnil(L);
        while (lua_next(L, ctx + 1)) {
            if (lua_type(L, -2) != LUA_TSTRING) luaL_error(L, "ctx has a key that is no name");
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, ctx);
        }
        lua_pop(L, 1);
    }
    // What t.sync takes from here to say who writes, no hook finds in its ctx.
    for (const char *const *name = nj_of_writer; *name != NULL; name++) {
        lua_pushnil(L);
        lua_setfield(L, ctx, *name);
    }
    nj_guard_context(L);
    nj_wrap_readonly(L);
}

void nj_push_test_hook(lua_State *L, nj_state *S, int hook) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, S->plugin_table);
    lua_rawgeti(L, -1, hook + 1);
    lua_remove(L, -2);
    if (lua_isnil(L, -1)) luaL_error(L, "the plugin has no %s", nj_hook_name(hook));
}

bool nj_push_test_call(lua_State *L, nj_state *S, int hook, uint64_t document) {
    nj_push_test_hook(L, S, hook);
    lua_pushlightuserdata(L, (void *)(uintptr_t)document);
    lua_pushliteral(L, "_deleted");
    lua_gettable(L, -2);
    bool is_deleted = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is_deleted;
}

// MARK: Functions of `t`

static int call_filter(lua_State *L, int hook) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    uint64_t handle = nj_make_test_document(L, S, 1, "the document");
    if (handle == 0) return luaL_error(L, "%s needs a document", nj_hook_name(hook));
    nj_push_test_context(L, S, 2, nj_push_test_call(L, S, hook, handle));
    lua_call(L, 2, LUA_MULTRET);
    if (lua_gettop(L) == 2) return luaL_error(L, "%s returned no value (a forgotten return?)", nj_hook_name(hook));
    lua_pushboolean(L, lua_toboolean(L, 3));
    return 1;
}

static int push_filter(lua_State *L) { return call_filter(L, 0); }
static int pull_filter(lua_State *L) { return call_filter(L, 1); }

static int resolve(lua_State *L) {
    nj_state *S = nj_of(L);
    static const char *const sides[] = {"local_doc", "remote_doc", "base_doc"};
    static const char *const texts[] = {"id", "local_rev", "remote_rev", "base_rev", "local_version", "remote_version"};
    static const char *const defaults[] = {"test", "2-local", "2-remote", NULL, NULL, NULL};
    lua_settop(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    nj_check_test_conflict(L, 1);
    lua_newtable(L); // 3: the conflict
    uint64_t handles[3];
    for (int i = 0; i < 3; i++) {
        lua_pushstring(L, sides[i]);
        lua_rawget(L, 1);
        handles[i] = nj_make_test_document(L, S, -1, sides[i]);
        lua_pop(L, 1);
        if (handles[i] == 0) continue;
        lua_pushlightuserdata(L, (void *)(uintptr_t)handles[i]);
        lua_setfield(L, 3, sides[i]);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lua_pushstring(L, texts[i]);
        lua_rawget(L, 1);
        if (lua_isnil(L, -1) && defaults[i] != NULL) {
            lua_pop(L, 1);
            lua_pushstring(L, defaults[i]);
        }
        lua_setfield(L, 3, texts[i]);
    }
    nj_guard_conflict(L);
    nj_push_test_hook(L, S, NJ_HOOK_RESOLVE);
    lua_pushvalue(L, 3);
    nj_push_test_context(L, S, 2, false);
    lua_call(L, 2, LUA_MULTRET);
    int results = lua_gettop(L) - 3;
    if (results > 0 && lua_rawequal(L, 3, 4)) return luaL_error(L, "%s", nj_returned_conflict);
    int32_t decision = nj_read_resolution(L, S, 4, results, handles[0], handles[1]);
    S->is_result = false;
    if (decision == NJ_MERGED) nj_decode(L, S, (nj_bytes){S->output.bytes, S->output.length}, "the merged document");
    else lua_pushvalue(L, 4);
    return 1;
}

static int authenticate_password(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 3);
    luaL_checktype(L, 1, LUA_TSTRING);
    luaL_checktype(L, 2, LUA_TSTRING);
    nj_push_test_hook(L, S, NJ_HOOK_PASSWORD);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    nj_push_test_context(L, S, 3, false);
    lua_call(L, 3, LUA_MULTRET);
    nj_read_principal(L, S, 4, lua_gettop(L) - 3, nj_hook_name(NJ_HOOK_PASSWORD));
    S->is_result = false;
    lua_pushvalue(L, 4);
    return 1;
}

// An optional text argument, put in front of the reason.
static int fail_check(lua_State *L, int argument, const char *reason) {
    if (lua_type(L, argument) == LUA_TSTRING) return luaL_error(L, "%s: %s", lua_tostring(L, argument), reason);
    return luaL_error(L, "%s", reason);
}

// A later check is unrelated to an equality check that failed inside a pcall.
static int accept(lua_State *L) {
    nj_of(L)->has_difference = false;
    return lua_toboolean(L, 1) ? 0 : fail_check(L, 2, "expected to be accepted, was rejected");
}

static int reject(lua_State *L) {
    nj_of(L)->has_difference = false;
    return lua_toboolean(L, 1) ? fail_check(L, 2, "expected to be rejected, was accepted") : 0;
}

// Pushes the value as plain tables, the same for a document and for a table written in the test.
static void push_plain(lua_State *L, nj_state *S, int index) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index) && !nj_is_document(L, index) && !nj_is_readonly(L, index)) {
        lua_pushvalue(L, index);
        return;
    }
    nj_encode(L, S, index, &S->output, (size_t)S->limits.result_bytes, "t.equal", NJ_VALUE);
    nj_decode(L, S, (nj_bytes){S->output.bytes, S->output.length}, "t.equal");
}

// For plain values; their depth is limited by the decoder.
static bool are_equal(lua_State *L, int a, int b) {
    if (!lua_istable(L, a) || !lua_istable(L, b)) return lua_rawequal(L, a, b);
    luaL_checkstack(L, 8, "t.equal");
    int counts[2] = {0, 0}, tables[2] = {a, b};
    for (int side = 0; side < 2; side++) {
        lua_pushnil(L);
        while (lua_next(L, tables[side])) {
            counts[side]++;
            if (side == 0) {
                lua_pushvalue(L, -2);
                lua_rawget(L, b);
                int top = lua_gettop(L);
                if (!are_equal(L, top - 1, top)) {
                    lua_pop(L, 3);
                    return false;
                }
                lua_pop(L, 1);
            }
            lua_pop(L, 1);
        }
    }
    return counts[0] == counts[1];
}

static void push_shown(lua_State *L, nj_state *S, int index) {
    if (lua_istable(L, index)) {
        nj_encode(L, S, index, &S->output, (size_t)S->limits.result_bytes, "t.equal", NJ_VALUE);
        size_t length = S->output.length < 400 ? S->output.length : 400;
        lua_pushlstring(L, (const char *)S->output.bytes, length);
    } else {
        nj_push_text(L, index);
    }
}

static int equal(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 3);
    push_plain(L, S, 1);
    push_plain(L, S, 2);
    if (are_equal(L, 4, 5)) return 0;
    push_shown(L, S, 4);
    push_shown(L, S, 5);
    lua_pushfstring(L, "got %s, expected %s", lua_tostring(L, 6), lua_tostring(L, 7));
    int reason = lua_gettop(L);
    // Both values in full, for a field-by-field difference.
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, 4);
    lua_setfield(L, -2, "got");
    lua_pushvalue(L, 5);
    lua_setfield(L, -2, "expected");
    nj_encode(L, S, lua_gettop(L), &S->output, (size_t)S->limits.block, "t.equal", NJ_VALUE);
    S->has_difference = true;
    return fail_check(L, 3, lua_tostring(L, reason));
}

static int fails(lua_State *L) {
    nj_state *S = nj_of(L);
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    int status = lua_pcall(L, 0, 0, 0);
    nj_note_status(S, status);
    if (S->limit != NJ_OK) return nj_raise_limit(L);
    S->is_result = false;
    if (status == LUA_OK) return luaL_error(L, "expected to fail, but did not");
    nj_push_text(L, 3);
    if (lua_type(L, 2) == LUA_TSTRING && strstr(lua_tostring(L, -1), lua_tostring(L, 2)) == NULL)
        return luaL_error(L, "failed with '%s', expected '%s' in it", lua_tostring(L, -1), lua_tostring(L, 2));
    return 1;
}

// MARK: Running

static int run_test(lua_State *L) {
    nj_state *S = nj_of(L);
    const arguments *a = lua_touserdata(L, 1);
    static const luaL_Reg functions[] = {
        {"push_filter", push_filter}, {"pull_filter", pull_filter}, {"resolve", resolve},
        {"authenticate_password", authenticate_password}, {"authenticate_certificate", nj_test_certificate},
        {"sync", nj_test_sync}, {"transform", nj_test_transform}, {"token", nj_test_token}, {"get_session", nj_test_session},
        {"on_status", nj_test_status}, {"on_documents", nj_test_documents}, {"select_peer", nj_test_select},
        {"accept", accept}, {"reject", reject}, {"equal", equal}, {"fails", fails}, {NULL, NULL}};
    lua_rawgeti(L, LUA_REGISTRYINDEX, S->tests);
    lua_pushlstring(L, a->first.bytes, a->first.length);
    if (!lua_istable(L, 2) || lua_rawget(L, 2) != LUA_TFUNCTION) return luaL_error(L, "there is no such test case");
    luaL_newlibtable(L, functions);
    lua_pushlstring(L, a->second.bytes, a->second.length);
    luaL_setfuncs(L, functions, 1);
    lua_call(L, 1, 0);
    return 0;
}

int nj_run_test(nj_state *S, nj_bytes name, nj_bytes context, const nj_budget *budget) {
    if (!nj_begin(S, budget)) return NJ_ERROR;
    arguments a = {name, context};
    S->has_difference = false;
    return nj_end(S, nj_protected(S, run_test, &a), NJ_ERROR);
}

nj_bytes nj_difference(const nj_state *S) { return S->has_difference ? (nj_bytes){S->output.bytes, S->output.length} : (nj_bytes){NULL, 0}; }
