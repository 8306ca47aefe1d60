// Compiling a plugin, running its load-time code, and checking the table it returns.
#include "calls.h"
#include "globals.h"

#include <stdio.h>

static const char *const hook_names[NJ_HOOKS] = {
    "push_filter", "pull_filter", "resolve", "authenticate_password", "authenticate_certificate", "sync", "transform", "token", "get_session",
    "on_status", "on_documents", "select_peer"};
enum { NJ_OTHER_KEYS = 3 };
static const char *const other_keys[NJ_OTHER_KEYS] = {"description", "params", "limits"};

const char *nj_hook_name(int hook) { return hook_names[hook]; }

int nj_load_chunk(lua_State *L, nj_state *S, nj_bytes name, nj_bytes source) {
    const char *text = source.bytes != NULL ? source.bytes : "";
    size_t length = source.length;
    lua_pushlstring(L, "@", 1);
    lua_pushlstring(L, name.bytes, name.length);
    lua_concat(L, 2);
    const char *chunk = lua_tostring(L, -1);
    if (length > (size_t)S->limits.source) {
        char reason[120];
        snprintf(reason, sizeof reason, "the source has %lld bytes, more than %lld (limit source)", (long long)length,
                 (long long)S->limits.source);
        return luaL_error(L, "%s:1: %s", chunk + 1, reason);
    }
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, length -= 3;
    if (length > 0 && text[0] == '#') { // "#!/usr/bin/lua": kept as an empty line, so that line numbers stay correct
        const char *line = memchr(text, '\n', length);
        length = line == NULL ? 0 : length - (size_t)(line - text);
        text = line == NULL ? "" : line;
    }
    if (length > 0 && text[0] == LUA_SIGNATURE[0]) return luaL_error(L, "%s:1: this is bytecode, not source text", chunk + 1);
    nj_charge(L, S, length >> 1); // compiling runs no hook
    int status = luaL_loadbufferx(L, text, length, chunk, "t");
    if (status == LUA_ERRMEM && S->refused) {
        S->limit = NJ_MEMORY;
        return nj_raise_limit(L);
    }
    if (status != LUA_OK) return lua_error(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_environment);
    lua_setupvalue(L, -2, 1); // _ENV, the only upvalue of a chunk
    lua_remove(L, -2);
    return 1;
}

static int unknown_key(lua_State *L, const char *chunk, const char *key, size_t length) {
    const char *nearest = NULL;
    int best = NJ_FAR;
    for (int i = 0; i < NJ_HOOKS + NJ_OTHER_KEYS; i++) {
        const char *candidate = i < NJ_HOOKS ? hook_names[i] : other_keys[i - NJ_HOOKS];
        int d = nj_name_distance(key, length, candidate, strlen(candidate));
        if (d < best) best = d, nearest = candidate;
    }
    if (nearest != NULL && best * 2 <= (int)strlen(nearest))
        return luaL_error(L, "%s: unknown key '%s' in the returned table; did you mean '%s'?", chunk, key, nearest);
    return luaL_error(
        L, "%s: unknown key '%s' in the returned table; known are description, params, push_filter, pull_filter, "
           "resolve, authenticate_password, authenticate_certificate, sync, transform, token, get_session, on_status, on_documents, select_peer", chunk, key);
}

typedef struct {
    nj_bytes name, source;
} chunk;

// Leaves the hooks' functions (or nil) as results, in the order of the hook numbers.
static int load(lua_State *L) {
    nj_state *S = nj_of(L);
    const chunk *c = lua_touserdata(L, 1);
    lua_pushlstring(L, c->name.bytes, c->name.length);
    const char *name = lua_tostring(L, -1);
    int base = lua_gettop(L);
    nj_load_chunk(L, S, c->name, c->source);
    lua_call(L, 0, LUA_MULTRET);
    int results = lua_gettop(L) - base;
    if (results == 0) return luaL_error(L, "%s: the plugin returns no value; it must return a table of hooks", name);
    lua_settop(L, base + 1);
    int table = base + 1;
    if (!lua_istable(L, table))
        return luaL_error(L, "%s: the plugin returns a %s; it must return a table of hooks", name, luaL_typename(L, table));
    if (lua_getmetatable(L, table)) return luaL_error(L, "%s: the returned table has a metatable; return a plain one", name);

    uint32_t mask = 0;
    luaL_checkstack(L, NJ_HOOKS + 4, name);
    for (int i = 0; i < NJ_HOOKS; i++) lua_pushnil(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            return luaL_error(L, "%s: the returned table has a key that is a %s, not a name", name, luaL_typename(L, -2));
        size_t length;
        const char *key = lua_tolstring(L, -2, &length);
        int hook = 0;
        while (hook < NJ_HOOKS && strcmp(key, hook_names[hook]) != 0) hook++;
        if (hook < NJ_HOOKS) {
            if (!lua_isfunction(L, -1)) return luaL_error(L, "%s: '%s' must be a function, not a %s", name, key, luaL_typename(L, -1));
            mask |= 1u << hook;
            lua_replace(L, table + 1 + hook);
            continue;
        }
        if (strcmp(key, "description") == 0) {
            if (lua_type(L, -1) != LUA_TSTRING) return luaL_error(L, "%s: 'description' must be a string, not a %s", name, luaL_typename(L, -1));
        } else if (strcmp(key, "params") == 0 || strcmp(key, "limits") == 0) {
            if (!lua_istable(L, -1)) return luaL_error(L, "%s: '%s' must be a table, not a %s", name, key, luaL_typename(L, -1));
        } else {
            return unknown_key(L, name, key, length);
        }
        lua_pop(L, 1);
    }
    if (mask == 0) return luaL_error(L, "%s: the returned table holds no hook (push_filter, pull_filter, resolve, …)", name);
    // The declarations are read later, from a copy that the plugin has no reference to.
    lua_createtable(L, NJ_HOOKS, NJ_OTHER_KEYS);
    for (int i = 0; i < NJ_OTHER_KEYS; i++) {
        lua_pushstring(L, other_keys[i]);
        lua_rawget(L, table);
        lua_setfield(L, -2, other_keys[i]);
    }
    for (int i = 0; i < NJ_HOOKS; i++) { // for plugin tests, which call hooks from inside a call
        lua_pushvalue(L, table + 1 + i);
        lua_rawseti(L, -2, i + 1);
    }
    S->plugin_table = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "params");
    lua_rawget(L, table);
    nj_guard_params(L);
    S->hook_mask = mask;
    return NJ_HOOKS;
}

int nj_load(nj_state *S, nj_bytes name, nj_bytes source, const nj_budget *budget) {
    if (!nj_begin(S, budget)) return NJ_LOAD;
    S->loading = true;
    lua_State *L = S->L;
    chunk c = {name, source};
    lua_pushcfunction(L, load);
    lua_pushlightuserdata(L, &c);
    int status = lua_pcall(L, 1, NJ_HOOKS, 1);
    if (status == LUA_OK) {
        for (int i = NJ_HOOKS; i >= 1; i--) lua_replace(L, 1 + i);
    }
    return nj_end(S, status, NJ_LOAD);
}

uint32_t nj_hook_mask(const nj_state *S) { return S->hook_mask; }

static int declaration(lua_State *L) {
    nj_state *S = nj_of(L);
    const char *key = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, S->plugin_table);
    lua_pushstring(L, key);
    lua_rawget(L, -2);
    if (lua_isnil(L, -1)) return 0;
    nj_encode(L, S, -1, &S->output, (size_t)S->limits.block, key, NJ_VALUE);
    return 0;
}

int nj_declaration(nj_state *S, const char *key) {
    S->output.length = 0;
    nj_budget budget = {1000000000, 10000000};
    if (!nj_begin(S, &budget)) return NJ_LOAD;
    return nj_end(S, nj_protected(S, declaration, (void *)(uintptr_t)key), NJ_LOAD);
}

// MARK: require

static bool is_module_name(nj_bytes name) {
    const uint8_t *p = name.bytes;
    if (name.length == 0 || name.length > 100) return false;
    bool after_dot = true;
    for (size_t i = 0; i < name.length; i++) {
        uint8_t c = p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!word && (c != '.' || after_dot)) return false;
        after_dot = c == '.';
    }
    return !after_dot;
}

int nj_require(lua_State *L) {
    nj_state *S = nj_of(L);
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    nj_bytes name = {text, length};
    lua_settop(L, 1);
    if (!is_module_name(name))
        return luaL_error(
            L, "module names are words of letters, digits, '_' and '-' with dots between; got '%s'", lua_tostring(L, 1));
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_modules); // 2
    lua_pushvalue(L, 1);
    int known = lua_rawget(L, 2);
    if (known == LUA_TLIGHTUSERDATA && lua_touserdata(L, 3) == (void *)&nj_key_modules)
        return luaL_error(L, "module '%s' requires itself", lua_tostring(L, 1));
    if (known != LUA_TNIL) return 1;
    nj_request request = {.operation = NJ_HOST_MODULE, .first = name};
    nj_host_call(L, S, &request);
    nj_bytes chunk = {S->reply.part[1], S->reply.length[1]}, source = {S->reply.part[0], S->reply.length[0]};
    nj_load_chunk(L, S, chunk, source); // 4
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, (void *)(uintptr_t)&nj_key_modules);
    lua_rawset(L, 2);
    bool was_loading = S->loading;
    S->loading = true; // even if a call is the first to require it: the module runs only once
    int status = lua_pcall(L, 0, 1, 0);
    S->loading = was_loading;
    nj_note_status(S, status);
    if (S->limit != NJ_OK) return nj_raise_limit(L);
    lua_pushvalue(L, 1);
    if (status != LUA_OK || lua_isnil(L, -2)) lua_pushnil(L);
    else lua_pushvalue(L, -2);
    if (status == LUA_OK && lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1); // like Lua's own require: a module that returns nothing is recorded as true
        lua_copy(L, -1, -3);
    }
    lua_rawset(L, 2);
    // A module that failed is not recorded, so it is tried again.
    return status == LUA_OK ? 1 : lua_error(L);
}
