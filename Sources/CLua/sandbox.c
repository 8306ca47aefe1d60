// The environment of plugins: a new table of selected functions. Nothing else of the standard library is reachable.
#define _GNU_SOURCE
#include "globals.h"

#include <stdio.h>
#include <stdlib.h>

// MARK: Text

void nj_push_text(lua_State *L, int index) {
    index = lua_absindex(L, index);
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        lua_pushvalue(L, index);
        lua_tostring(L, -1);
        return;
    case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false"); return;
    case LUA_TNIL: lua_pushliteral(L, "nil"); return;
    case LUA_TLIGHTUSERDATA: {
        uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, index);
        lua_pushstring(L, handle == NJ_HANDLE_NULL ? "null" : handle == NJ_HANDLE_DELETE ? "delete" : "document");
        return;
    }
    case LUA_TTABLE:
        if (luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
            lua_pushvalue(L, index);
            lua_call(L, 1, 1);
            if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "'__tostring' must return a string");
            return;
        }
        // fall through
    default: // no addresses: they help exploits and differ between runs
        lua_pushstring(L, nj_is_readonly(L, index) ? "table" : luaL_typename(L, index));
    }
}

static int base_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    nj_push_text(L, 1);
    return 1;
}

static int base_print(lua_State *L) {
    int count = lua_gettop(L);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    for (int i = 1; i <= count; i++) {
        if (i > 1) luaL_addchar(&text, ' ');
        nj_push_text(L, i);
        luaL_addvalue(&text);
    }
    luaL_pushresult(&text);
    size_t length;
    const char *bytes = lua_tolstring(L, -1, &length);
    return nj_log(L, 1, bytes, length, (nj_bytes){NULL, 0});
}

// A document reads like a table, so its type is reported as that.
static int base_type(lua_State *L) {
    luaL_checkany(L, 1);
    int type = lua_type(L, 1);
    if (type == LUA_TLIGHTUSERDATA && nj_is_document(L, 1)) type = LUA_TTABLE;
    else if (type == LUA_TUSERDATA && nj_is_readonly(L, 1)) type = LUA_TTABLE;
    lua_pushstring(L, lua_typename(L, type));
    return 1;
}

static int base_next(lua_State *L) {
    if (nj_is_document(L, 1)) return nj_document_next(L);
    lua_settop(L, 2);
    if (nj_is_readonly(L, 1)) {
        nj_push_readonly_table(L, 1);
        lua_replace(L, 1);
    } else if (nj_push_layer_base(L, 1)) {
        return nj_layer_next(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_next(L, 1)) return 2;
    lua_pushnil(L);
    return 1;
}

static int base_rawget(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    if (nj_push_layer_base(L, 1)) {
        lua_settop(L, 2);
        nj_layer_rawget(L);
    } else {
        lua_rawget(L, 1);
    }
    return 1;
}

static int base_rawset(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    if (nj_push_layer_base(L, 1)) {
        lua_settop(L, 3);
        nj_layer_rawset(L);
        lua_settop(L, 1);
    } else {
        lua_rawset(L, 1);
    }
    return 1;
}

// MARK: Handlers that cannot swallow a limit

static int after_call(lua_State *L, int status, lua_KContext first) {
    nj_state *S = nj_of(L);
    nj_note_status(S, status);
    if (S->limit != NJ_OK) return nj_raise_limit(L);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_pushboolean(L, 0);
        lua_insert(L, -2);
        return 2;
    }
    return lua_gettop(L) - (int)first;
}

// In a coroutine, a protected call is a frame that stays when an error is caught beyond the limit of C calls, which Lua then counts anew. A chain of
// thousands would be unwound frame by frame, each time with a walk over all others: seconds that no hook interrupts.
static void check_depth(lua_State *L) {
    enum { MAX_FRAMES = 200 }; // as many as C calls on the main thread
    lua_Debug frame;
    bool isMain = lua_pushthread(L) == 1;
    lua_pop(L, 1);
    if (!isMain && lua_getstack(L, MAX_FRAMES, &frame)) luaL_error(L, "stack overflow (pcall in a coroutine below %d calls)", (int)MAX_FRAMES);
}

static int base_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    check_depth(L);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return after_call(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after_call), 0);
}

// Takes the place of the script's message handler, which would run with hooks disabled if the hook itself raised an error.
static int inert_handler(lua_State *L) {
    if (nj_of(L)->limit != NJ_OK) return 1;
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int base_xpcall(lua_State *L) {
    int arguments = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    check_depth(L);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, inert_handler, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, 1); // stays below the results
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); // function, handler, true, function, arguments
    return after_call(L, lua_pcallk(L, arguments - 2, LUA_MULTRET, 2, 2, after_call), 2);
}

// MARK: Metatables

static const char *const copied_fields[] = {
    "__index", "__newindex", "__call", "__tostring", "__name", "__len", "__eq", "__lt", "__le", "__unm", "__add", "__sub",
    "__mul", "__div", "__mod", "__pow", "__idiv", "__band", "__bor", "__bxor", "__shl", "__shr", "__bnot", "__pairs",
    "__metatable", NULL};
// __gc runs with hooks disabled; the others are read when used, and each can be used to hang or break Lua 5.4.4.
static const char *const refused_fields[] = {"__gc", "__mode", "__close", "__concat", NULL};

// The table gets a private copy of the vetted fields; what a script later adds to its own metatable has no effect.
static int base_setmetatable(lua_State *L) {
    int type = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    lua_settop(L, 2);
    lua_pushvalue(L, 1); // 3: what is given back
    if (nj_push_layer_base(L, 1)) {
        nj_layer_save_metatable(L, 1);
        lua_replace(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 3);
    if (type == LUA_TTABLE) {
        lua_createtable(L, 0, 4);
        for (int i = 0; refused_fields[i] != NULL; i++) {
            lua_pushstring(L, refused_fields[i]);
            if (lua_rawget(L, 2) != LUA_TNIL) return luaL_error(L, "'%s' is not available in plugins", refused_fields[i]);
            lua_pop(L, 1);
        }
        for (int i = 0; copied_fields[i] != NULL; i++) {
            lua_pushstring(L, copied_fields[i]);
            lua_pushvalue(L, -1);
            if (lua_rawget(L, 2) == LUA_TNIL) {
                lua_pop(L, 2);
                continue;
            }
            if (i == 2 && !lua_isfunction(L, -1)) return luaL_error(L, "'__call' must be a function in plugins");
            lua_rawset(L, 4);
        }
        lua_pushvalue(L, 2);
        lua_rawsetp(L, 4, &nj_key_original);
    } else {
        lua_pushnil(L);
    }
    nj_keep_undefined(L, 1, 4);
    lua_setmetatable(L, 1);
    lua_settop(L, 3);
    return 1;
}

static int base_getmetatable(lua_State *L) {
    luaL_checkany(L, 1);
    if (nj_push_layer_base(L, 1)) lua_replace(L, 1);
    if (!lua_getmetatable(L, 1)) return lua_pushnil(L), 1;
    lua_pushliteral(L, "__metatable");
    if (lua_rawget(L, -2) != LUA_TNIL) return 1;
    if (!lua_istable(L, 1)) return lua_pushboolean(L, 0), 1;
    lua_rawgetp(L, -2, &nj_key_original);
    return 1;
}

// MARK: The table

static void copy_fields(lua_State *L, int from, int to, const char *const *names) {
    for (; *names != NULL; names++) {
        lua_getfield(L, from, *names);
        lua_setfield(L, to, *names);
    }
}

// The library on top, as the view given to scripts.
static void set_layer(lua_State *L, int env, const char *name) {
    nj_make_layer(L);
    lua_setfield(L, env, name);
}

static void build_classes(nj_state *S) {
    // ASCII only, whatever the locale.
    static const char letters[] = NJ_CLASS_LETTERS;
    for (int k = 0; letters[k] != 0; k++) {
        for (int c = 0; c < 256; c++) {
            bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z', digit = c >= '0' && c <= '9';
            bool graphic = c > 32 && c < 127, is = false;
            switch (letters[k]) {
            case 'a': is = lower || upper; break;
            case 'c': is = c < 32 || c == 127; break;
            case 'd': is = digit; break;
            case 'g': is = graphic; break;
            case 'l': is = lower; break;
            case 'p': is = graphic && !lower && !upper && !digit; break;
            case 's': is = c == ' ' || (c >= 9 && c <= 13); break;
            case 'u': is = upper; break;
            case 'w': is = lower || upper || digit; break;
            case 'z': is = c == 0; break; // deprecated, as in Lua
            default: is = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            }
            S->classes[2 * k + (is ? 0 : 1)][c >> 3] |= (uint8_t)(1 << (c & 7));
        }
    }
}

static void push_marker_table(lua_State *L, const void *key, const char *name) {
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void nj_build_environment(lua_State *L) {
    static const char *const base_names[] = {"assert", "error", "ipairs", "pairs", "rawequal", "rawlen", "select", "_VERSION",
                                             NULL};
    static const char *const math_names[] = {
        "abs", "ceil", "floor", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "deg", "rad",
        "fmod", "modf", "tointeger", "type", "ult", "random", "pi", "huge", "maxinteger", "mininteger", NULL};
    static const luaL_Reg base[] = {
        {"tostring", base_tostring}, {"print", base_print}, {"type", base_type}, {"next", base_next},
        {"pcall", base_pcall}, {"xpcall", base_xpcall}, {"setmetatable", base_setmetatable},
        {"getmetatable", base_getmetatable}, {"rawget", base_rawget}, {"rawset", base_rawset}, {"require", nj_require},
        {NULL, NULL}};
    build_classes(nj_of(L));
    push_marker_table(L, &nj_key_array, "array");
    push_marker_table(L, &nj_key_object, "object");
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_modules);
    nj_open_documents(L);

    lua_newtable(L);
    int env = lua_gettop(L);
    luaL_setfuncs(L, base, 0);

    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    copy_fields(L, lua_gettop(L), env, base_names);
    lua_getfield(L, -1, "tonumber");
    nj_wrap_charged(L);
    lua_setfield(L, env, "tonumber");
    lua_settop(L, env);

    luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
    lua_newtable(L);
    copy_fields(L, env + 1, env + 2, math_names);
    static const char *const of_many[] = {"max", "min"};
    for (int i = 0; i < 2; i++) {
        lua_getfield(L, env + 1, of_many[i]);
        nj_wrap_charged_for_all(L);
        lua_setfield(L, env + 2, of_many[i]);
    }
    set_layer(L, env, "math");
    lua_settop(L, env);

    luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 0);
    lua_newtable(L);
    static const char *const utf8_plain[] = {"charpattern", NULL};
    static const char *const utf8_charged[] = {"codepoint", "len", "offset"};
    copy_fields(L, env + 1, env + 2, utf8_plain);
    for (int i = 0; i < 3; i++) {
        lua_getfield(L, env + 1, utf8_charged[i]);
        nj_wrap_charged(L);
        lua_setfield(L, env + 2, utf8_charged[i]);
    }
    lua_getfield(L, env + 1, "char");
    nj_wrap_charged_for_all(L);
    lua_setfield(L, env + 2, "char");
    lua_pushcfunction(L, nj_utf8_codes);
    lua_setfield(L, env + 2, "codes");
    set_layer(L, env, "utf8");
    lua_settop(L, env);

    // luaopen_os only fills a table; the functions that reach outside are dropped with it.
    lua_pushcfunction(L, luaopen_os);
    lua_call(L, 0, 1);
    nj_open_dates(L);
    set_layer(L, env, "os");
    lua_settop(L, env);

    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
    nj_open_strings(L);
    int strings = lua_gettop(L);
    // The methods of strings are those of the guarded table, and scripts cannot access their metatable. Arithmetic on strings converts them, at a
    // cost that grows with their length.
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    static const char *const arithmetic[] = {"__add", "__sub", "__mul", "__mod", "__pow", "__div", "__idiv", "__unm"};
    for (int i = 0; i < 8; i++) {
        lua_getfield(L, -1, arithmetic[i]);
        nj_wrap_charged(L);
        lua_setfield(L, -2, arithmetic[i]);
    }
    lua_pushvalue(L, strings);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_settop(L, strings);
    set_layer(L, env, "string");
    lua_settop(L, env);

    nj_open_tables(L);
    set_layer(L, env, "table");
    nj_open_coroutines(L);
    set_layer(L, env, "coroutine");
    nj_open_library(L);
    set_layer(L, env, "nightjar");
    nj_open_sync(L);
    // Scripts get views of it: _ENV, where an undefined variable is an error, and _G, a field of the table behind them.
    lua_createtable(L, 0, 1);
    nj_set_undefined(L, -1);
    lua_setmetatable(L, env);
    lua_pushvalue(L, env);
    nj_make_layer(L);
    nj_push_globals(L, -1);
    lua_setfield(L, env, "_G");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_environment);

    // What luaL_requiref and luaopen_base left behind.
    lua_newtable(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_gc(L, LUA_GCCOLLECT, 0);
}
