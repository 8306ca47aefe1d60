// Guards: the metatables of `conflict` and of the tables behind `ctx`, `ctx.flags` and `ctx.params`. Reading a member that they never have is an error.
// If it were nil, like a side that is deleted or a flag that is not set, a misspelt member would make a resolver delete documents that both sides have,
// and a pull filter drop what it is to keep.
#include "calls.h"
#include "globals.h"

static const char key_guard = 0; // marks a guard

// names: the index of the set of names that there are; more: others besides, NULL at the end, or NULL for none.
static int fail_name(lua_State *L, const char *name, int names, const char *const *more, const char *what, const char *instead) {
    nj_nearest nearest;
    nj_seek_nearest(&nearest, name);
    nj_consider_keys(L, &nearest, names);
    for (; more != NULL && *more != NULL; more++) nj_consider_name(&nearest, *more);
    char shown[40];
    size_t length = nearest.length < sizeof shown - 4 ? nearest.length : sizeof shown - 4;
    memcpy(shown, nearest.name, length);
    memcpy(shown + length, length < nearest.length ? "..." : "", length < nearest.length ? 4 : 1);
    if (nearest.distance < NJ_FAR) return luaL_error(L, "%s has no '%s'; did you mean '%s'?", what, shown, nearest.found);
    return luaL_error(L, "%s has no '%s'; %s", what, shown, instead);
}

// For the tables behind ctx this is no detour for members that are there: only what is absent gets here. Upvalues: the names that may be absent, as
// keys; what the table is called; what there is instead, if no name is similar. Arguments: table, name.
static int absent(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1; // ipairs and the like
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return lua_pushnil(L), 1; // this one has none
    nj_charge(L, S, 2048); // a script may catch the error and repeat the access
    return fail_name(L, lua_tostring(L, 2), lua_upvalueindex(1), NULL, lua_touserdata(L, lua_upvalueindex(2)), lua_touserdata(L, lua_upvalueindex(3)));
}

// Makes a guard from the set of names on top, which is popped. The texts are constants.
static void keep_guard(lua_State *L, const void *key, const char *what, const char *instead) {
    lua_createtable(L, 0, 3);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, (void *)(uintptr_t)what);
    lua_pushlightuserdata(L, (void *)(uintptr_t)instead);
    lua_pushcclosure(L, absent, 3);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, &key_guard);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

// Once for each state, so that a call creates nothing.
void nj_open_guards(lua_State *L) {
    static const char *const of_conflict[] = {
        "id", "local_doc", "remote_doc", "base_doc", "local_rev", "remote_rev", "base_rev", "local_version", "remote_version", NULL};
    static const char *const of_context[] = {
        "params", "database", "scope", "collection", "direction", "replicator", "listener", "remote", "user", "protocol", "flags", "plugin", "version",
        NULL};
    static const char *const of_flags[] = {"deleted", "access_removed", NULL};
    static const struct {
        const void *key;
        const char *what;
        const char *const *names;
        const char *instead;
    } guards[] = {
        {&nj_key_conflict, "conflict", of_conflict,
         "it has id, local_doc, remote_doc, base_doc, local_rev, remote_rev, base_rev, local_version and remote_version"},
        {&nj_key_context, "ctx", of_context,
         "it has params, database, scope, collection, direction, replicator, listener, remote, user, protocol, flags, plugin and version"},
        {&nj_key_flags, "ctx.flags", of_flags, "it has deleted and access_removed"},
    };
    luaL_checkstack(L, 8, "guards");
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        lua_newtable(L);
        for (const char *const *name = guards[i].names; *name != NULL; name++) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, *name);
        }
        keep_guard(L, guards[i].key, guards[i].what, guards[i].instead);
    }
}

// The declarations on top, which are popped, are a table or nil. Their names are copied: the plugin can change its table later.
void nj_guard_params(lua_State *L) {
    luaL_checkstack(L, 8, "params");
    int declared = lua_gettop(L);
    lua_newtable(L);
    if (lua_istable(L, declared)) {
        lua_pushnil(L);
        while (lua_next(L, declared)) {
            nj_charge(L, nj_of(L), 1);
            lua_pop(L, 1);
            if (lua_type(L, -1) != LUA_TSTRING) continue; // refused when the declarations are read
            lua_pushvalue(L, -1);
            lua_pushboolean(L, 1);
            lua_rawset(L, declared + 1);
        }
    }
    keep_guard(L, &nj_key_params, "ctx.params", "the plugin declares no such parameter");
    lua_settop(L, declared - 1);
}

static void guard(lua_State *L, const void *key) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_setmetatable(L, -2);
}

void nj_guard_conflict(lua_State *L) { guard(L, &nj_key_conflict); }

void nj_guard_context(lua_State *L) {
    luaL_checkstack(L, 4, "ctx");
    lua_pushliteral(L, "flags");
    if (lua_rawget(L, -2) == LUA_TTABLE) guard(L, &nj_key_flags); // a test may have put anything there
    lua_pop(L, 1);
    lua_pushliteral(L, "params");
    if (lua_rawget(L, -2) == LUA_TTABLE) guard(L, &nj_key_params);
    lua_pop(L, 1);
    guard(L, &nj_key_context);
}

// MARK: What a plugin's test gives

// Of a test's ctx only: who writes, for t.sync.
const char *const nj_of_writer[] = {"roles", "channels", "admin", NULL};

static bool is_one_of(const char *name, const char *const *names) {
    for (; names != NULL && *names != NULL; names++) {
        if (strcmp(name, *names) == 0) return true;
    }
    return false;
}

// The names are those of the guard and of more. A name that there is not would go unnoticed, and the test would try something else than it says.
static void check_names(lua_State *L, int index, const void *key, const char *const *more) {
    nj_state *S = nj_of(L);
    luaL_checkstack(L, 12, "a test's table");
    int table = lua_absindex(L, index), top = lua_gettop(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_getfield(L, -1, "__index");
    lua_getupvalue(L, -1, 1);
    int names = lua_gettop(L), unknown = names + 1;
    lua_pushnil(L); // the alphabetically first unknown name: the order of a table's members varies
    lua_pushnil(L);
    while (lua_next(L, table)) {
        nj_charge(L, S, 1);
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING) continue;
        const char *name = lua_tostring(L, -1);
        lua_pushvalue(L, -1);
        bool is_known = lua_rawget(L, names) != LUA_TNIL || is_one_of(name, more);
        lua_pop(L, 1);
        if (is_known || (!lua_isnil(L, unknown) && strcmp(lua_tostring(L, unknown), name) <= 0)) continue;
        lua_copy(L, -1, unknown);
    }
    if (!lua_isnil(L, unknown)) {
        nj_charge(L, S, 2048); // a test may catch the error and repeat it
        lua_getupvalue(L, names - 1, 2);
        lua_getupvalue(L, names - 1, 3);
        const char *what = lua_touserdata(L, -2), *instead = lua_touserdata(L, -1);
        if (more != NULL) instead = lua_pushfstring(L, "%s; for t.sync also roles, channels and admin", instead);
        fail_name(L, lua_tostring(L, unknown), names, more, what, instead);
    }
    lua_settop(L, top);
}

void nj_check_test_conflict(lua_State *L, int index) { check_names(L, index, &nj_key_conflict, NULL); }

void nj_check_test_context(lua_State *L, int index) {
    luaL_checkstack(L, 4, "ctx");
    int ctx = lua_absindex(L, index);
    check_names(L, ctx, &nj_key_context, nj_of_writer);
    lua_pushliteral(L, "flags");
    if (lua_rawget(L, ctx) == LUA_TTABLE) check_names(L, -1, &nj_key_flags, NULL);
    lua_pushliteral(L, "params");
    if (lua_rawget(L, ctx) == LUA_TTABLE) check_names(L, -1, &nj_key_params, NULL);
    lua_pop(L, 2);
}

bool nj_is_guarded(lua_State *L, int index) {
    if (!lua_getmetatable(L, index)) return false;
    bool is = lua_rawgetp(L, -1, &key_guard) != LUA_TNIL;
    lua_pop(L, 2);
    return is;
}
