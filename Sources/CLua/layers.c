// The environment and its libraries as seen by scripts: empty tables in front of the real ones.
//
// What load-time code writes goes to the real table and stays. What a call writes goes to an overlay that is dropped when the call ends, so that no
// global variable and no modified library survives into the next call. Reading costs one step more than from the table itself; an unmodified
// environment costs nothing at the end of a call.
#include "globals.h"

// In the view's metatable: the real table; the view's number; the metatable that the real table had before this call.
static const char key_base = 0, key_number = 0, key_saved = 0;
// In the metatable of `_G`, which is a second view of the environment: the metatable of the first.
static const char key_first = 0;
// In the overlay's metatable: the names that this call has removed.
static const char key_hidden = 0;
static const char key_layers = 0; // registry: the views' metatables by number

static bool push_views_metatable(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return false;
    if (lua_rawgetp(L, -1, &key_base) != LUA_TNIL) {
        lua_pop(L, 1);
        return true;
    }
    lua_pop(L, 1);
    if (lua_rawgetp(L, -1, &key_first) != LUA_TNIL) {
        lua_remove(L, -2);
        return true;
    }
    lua_pop(L, 2);
    return false;
}

bool nj_push_layer_base(lua_State *L, int index) {
    if (!push_views_metatable(L, index)) return false;
    lua_rawgetp(L, -1, &key_base);
    lua_remove(L, -2);
    return true;
}

// Pushes the overlay of the view's metatable at `meta`; false (and pushes nothing) if this call has written nothing.
static bool push_overlay(lua_State *L, int meta) {
    meta = lua_absindex(L, meta);
    lua_rawgetp(L, meta, &key_base);
    lua_pushliteral(L, "__index");
    lua_rawget(L, meta);
    bool is = !lua_rawequal(L, -1, -2);
    lua_remove(L, -2);
    if (!is) lua_pop(L, 1);
    return is;
}

static void mark_changed(lua_State *L, nj_state *S, int meta) {
    lua_rawgetp(L, meta, &key_number);
    S->layers_changed |= 1u << lua_tointeger(L, -1);
    lua_pop(L, 1);
}

static void make_overlay(lua_State *L, nj_state *S, int meta) { // leaves it on the stack
    lua_newtable(L);
    lua_createtable(L, 0, 2);
    lua_rawgetp(L, meta, &key_base);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    mark_changed(L, S, meta);
    lua_pushliteral(L, "__index");
    lua_pushvalue(L, -2);
    lua_rawset(L, meta);
}

// The overlay's __index once a call has removed names of the real table.
static int hidden_index(lua_State *L) {
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        // As if the real table had no such name.
        if (luaL_getmetafield(L, lua_upvalueindex(2), "__index") == LUA_TNIL) return lua_pushnil(L), 1;
        if (!lua_isfunction(L, -1)) {
            lua_pushvalue(L, 2);
            lua_gettable(L, -2);
            return 1;
        }
        lua_pushvalue(L, lua_upvalueindex(2));
        lua_pushvalue(L, 2);
        lua_call(L, 2, 1);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_gettable(L, lua_upvalueindex(2));
    return 1;
}

// Makes the name of the real table (on the stack at `base`) read as nil through the overlay.
static void hide(lua_State *L, int overlay, int base, int name) {
    lua_getmetatable(L, overlay);
    int meta = lua_gettop(L);
    if (lua_rawgetp(L, meta, &key_hidden) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, meta, &key_hidden);
        lua_pushvalue(L, -1);
        lua_pushvalue(L, base);
        lua_pushcclosure(L, hidden_index, 2);
        lua_setfield(L, meta, "__index");
    }
    lua_pushvalue(L, name);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_settop(L, meta - 1);
}

// Stack: view, name, value. Ignores metamethods of the real table.
static void write_raw(lua_State *L, nj_state *S, int meta, int base) {
    if (S->loading) {
        lua_pushvalue(L, 2);
        lua_pushvalue(L, 3);
        lua_rawset(L, base);
        return;
    }
    if (!push_overlay(L, meta)) make_overlay(L, S, meta);
    int overlay = lua_gettop(L);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, overlay);
    if (!lua_isnil(L, 3)) return;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, base) != LUA_TNIL) hide(L, overlay, base, 2);
}

// __newindex of a view; a plugin may have given the environment a metatable of its own ("strict" globals).
static int view_newindex(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 3);
    if (!push_views_metatable(L, 1)) return luaL_argerror(L, 1, "not what it was");
    lua_rawgetp(L, 4, &key_base);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    bool is_new = !nj_layer_rawget(L);
    lua_settop(L, 5);
    if (is_new && luaL_getmetafield(L, 5, "__newindex") != LUA_TNIL) {
        bool is_function = lua_isfunction(L, 6);
        if (is_function) lua_pushvalue(L, 1);
        lua_pushvalue(L, 2);
        lua_pushvalue(L, 3);
        if (is_function) lua_call(L, 3, 0);
        else lua_settable(L, 6);
        return 0;
    }
    lua_settop(L, 5);
    write_raw(L, S, 4, 5);
    return 0;
}

// Stack: …, view, name. Replaces the name by its value, without metamethods; false when that is nil.
bool nj_layer_rawget(lua_State *L) {
    int name = lua_gettop(L), view = name - 1;
    push_views_metatable(L, view);
    int meta = name + 1;
    bool found = false;
    if (push_overlay(L, meta)) {
        int overlay = lua_gettop(L);
        lua_pushvalue(L, name);
        found = lua_rawget(L, overlay) != LUA_TNIL;
        if (!found && lua_getmetatable(L, overlay)) {
            if (lua_rawgetp(L, -1, &key_hidden) != LUA_TNIL) {
                lua_pushvalue(L, name);
                if (lua_rawget(L, -2) != LUA_TNIL) {
                    lua_pushnil(L);
                    lua_replace(L, name);
                    lua_settop(L, name);
                    return false;
                }
            }
        }
    }
    if (!found) {
        lua_rawgetp(L, meta, &key_base);
        lua_pushvalue(L, name);
        found = lua_rawget(L, -2) != LUA_TNIL;
    }
    lua_replace(L, name);
    lua_settop(L, name);
    return found;
}

// rawset(view, name, value)
void nj_layer_rawset(lua_State *L) {
    push_views_metatable(L, 1);
    lua_rawgetp(L, 4, &key_base);
    write_raw(L, nj_of(L), 4, 5);
}

// next(view, name): the real table's names with their current values, then those that only this call has added.
int nj_layer_next(lua_State *L) {
    lua_settop(L, 2);
    push_views_metatable(L, 1);      // 3
    lua_rawgetp(L, 3, &key_base);    // 4
    if (!push_overlay(L, 3)) {       // 5
        lua_pushvalue(L, 2);
        return lua_next(L, 4) ? 2 : (lua_pushnil(L), 1);
    }
    bool in_base = lua_isnil(L, 2);
    if (!in_base) {
        lua_pushvalue(L, 2);
        in_base = lua_rawget(L, 4) != LUA_TNIL;
        lua_settop(L, 5);
    }
    lua_pushvalue(L, 2);
    while (in_base && lua_next(L, 4)) { // 6: name, 7: value
        lua_settop(L, 6);
        lua_pushvalue(L, 1);
        lua_pushvalue(L, 6);
        if (nj_layer_rawget(L)) { // 7: view, 8: value
            lua_remove(L, 7);
            return 2;
        }
        lua_settop(L, 6);
    }
    if (in_base) {
        lua_settop(L, 5);
        lua_pushnil(L);
    }
    while (lua_next(L, 5)) {
        lua_pushvalue(L, 6);
        if (lua_rawget(L, 4) == LUA_TNIL) { // otherwise it was returned above
            lua_settop(L, 7);
            return 2;
        }
        lua_settop(L, 6);
    }
    lua_pushnil(L);
    return 1;
}

static int checked_next(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    if (!push_views_metatable(L, 1)) return luaL_argerror(L, 1, "not what pairs was given");
    lua_settop(L, 2);
    return nj_layer_next(L);
}

static int view_pairs(lua_State *L) {
    lua_pushcfunction(L, checked_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

// Keeps the metatable that the real table of the view at `index` has, to be given back at the end of the call.
void nj_layer_save_metatable(lua_State *L, int index) {
    nj_state *S = nj_of(L);
    if (S->loading || !push_views_metatable(L, index)) return;
    int meta = lua_gettop(L);
    if (lua_rawgetp(L, meta, &key_saved) == LUA_TNIL) {
        lua_rawgetp(L, meta, &key_base);
        if (!lua_getmetatable(L, -1)) lua_pushboolean(L, 0);
        lua_rawsetp(L, meta, &key_saved);
        mark_changed(L, S, meta);
    }
    lua_settop(L, meta - 1);
}

// Replaces the table on top by a view of it.
void nj_make_layer(lua_State *L) {
    int base = lua_gettop(L);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_layers) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &key_layers);
    }
    int layers = base + 1;
    lua_Integer number = (lua_Integer)lua_rawlen(L, layers) + 1;
    if (number > 31) luaL_error(L, "too many libraries");
    lua_newtable(L);          // the view
    lua_createtable(L, 0, 8); // its metatable
    int meta = base + 3;
    lua_pushvalue(L, base);
    lua_rawsetp(L, meta, &key_base);
    lua_pushinteger(L, number);
    lua_rawsetp(L, meta, &key_number);
    lua_pushboolean(L, 0); // so that the place for it is there
    lua_rawsetp(L, meta, &key_saved);
    lua_pushnil(L);
    lua_rawsetp(L, meta, &key_saved);
    lua_pushvalue(L, base);
    lua_setfield(L, meta, "__index");
    lua_pushcfunction(L, view_newindex);
    lua_setfield(L, meta, "__newindex");
    lua_pushcfunction(L, view_pairs);
    lua_setfield(L, meta, "__pairs");
    lua_pushvalue(L, meta);
    lua_rawseti(L, layers, number);
    lua_setmetatable(L, base + 2);
    lua_replace(L, base);
    lua_settop(L, base);
}

// MARK: _G

// A plugin tests `_G.name` to find out whether a variable exists: nil where plain `name` is an error. A plugin's own __index is respected.
static int global_index(lua_State *L) {
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    if (nj_layer_rawget(L)) return 1;
    if (!nj_push_layer_base(L, 1)) return luaL_argerror(L, 1, "not what it was");
    int base = lua_gettop(L);
    if (nj_raises_undefined(L, base) || luaL_getmetafield(L, base, "__index") == LUA_TNIL) return lua_pushnil(L), 1;
    bool is_function = lua_isfunction(L, -1);
    if (is_function) lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    if (is_function) lua_call(L, 2, 1);
    else lua_gettable(L, -2);
    return 1;
}

// _ENV == _G, as in Lua.
static int are_views_of_one(lua_State *L) {
    lua_settop(L, 2);
    bool is = nj_push_layer_base(L, 1) && nj_push_layer_base(L, 2) && lua_rawequal(L, -1, -2);
    return lua_pushboolean(L, is), 1;
}

void nj_push_globals(lua_State *L, int view) {
    view = lua_absindex(L, view);
    lua_newtable(L);
    lua_createtable(L, 0, 6);
    lua_getmetatable(L, view);
    lua_rawsetp(L, -2, &key_first);
    lua_pushcfunction(L, global_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, view_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, view_pairs);
    lua_setfield(L, -2, "__pairs");
    lua_pushcfunction(L, are_views_of_one);
    lua_setfield(L, -2, "__eq");
    lua_setmetatable(L, -2);
}

// MARK: The end of a call

static int reset(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_layers); // 1
    for (int number = 1; number < 32; number++) {
        if ((S->layers_changed & 1u << number) == 0) continue;
        lua_rawgeti(L, 1, number);    // 2
        lua_rawgetp(L, 2, &key_base); // 3
        lua_pushliteral(L, "__index");
        lua_pushvalue(L, 3);
        lua_rawset(L, 2);
        if (lua_rawgetp(L, 2, &key_saved) != LUA_TNIL) {
            if (lua_isboolean(L, -1)) lua_pop(L, 1), lua_pushnil(L);
            lua_setmetatable(L, 3);
            lua_pushnil(L);
            lua_rawsetp(L, 2, &key_saved);
        }
        lua_settop(L, 1);
    }
    return 0;
}

void nj_reset_layers(nj_state *S) {
    lua_State *L = S->L;
    lua_pushcfunction(L, reset);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) { // memory is short: the state will not be used again
        lua_pop(L, 1);
        S->exhausted = true;
    }
    S->layers_changed = 0;
}
