// Undefined global variables. Reading one is an error, so that a misspelt name is reported where it occurs instead of reading as nil until a document
// reaches it. Only missing variables get here, so defined ones cost no more than usual. `_G.name` and `rawget(_G, "name")` still return nil, for
// sources that test whether a variable exists.
#include "globals.h"

// MARK: Similar names

enum { NJ_LONGEST_NAME = 32 };

// Edits that turn one name into the other: a letter inserted, deleted or replaced, or two neighbouring letters swapped.
int nj_name_distance(const char *a, size_t n, const char *b, size_t m) {
    if (n > NJ_LONGEST_NAME || m > NJ_LONGEST_NAME) return NJ_FAR;
    int rows[3][NJ_LONGEST_NAME + 1];
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int least = last[j] + 1 < row[j - 1] + 1 ? last[j] + 1 : row[j - 1] + 1;
            int change = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (change < least) least = change;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < least) least = before[j - 2] + 1;
            row[j] = least;
        }
        int *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[m];
}

void nj_seek_nearest(nj_nearest *nearest, const char *name) {
    nearest->name = name;
    nearest->length = strlen(name);
    nearest->distance = NJ_FAR;
    nearest->found[0] = 0;
}

void nj_consider_name(nj_nearest *nearest, const char *candidate) {
    size_t length = strlen(candidate);
    if (length == 0 || length > NJ_LONGEST_NAME || *candidate == '(') return; // "(temporary)" and the like have no name
    size_t apart = length > nearest->length ? length - nearest->length : nearest->length - length;
    if (apart > (size_t)nearest->distance) return;
    int distance = nj_name_distance(nearest->name, nearest->length, candidate, length);
    // One edit for a short name, two from six letters on: a name that differs more is a different word.
    if (distance == 0 || length < 3 || (distance > 1 && distance * 3 > (int)length)) return;
    // Of two equally similar ones the alphabetically first, so that the choice is deterministic.
    if (distance > nearest->distance || (distance == nearest->distance && strcmp(candidate, nearest->found) >= 0)) return;
    nearest->distance = distance;
    memcpy(nearest->found, candidate, length + 1);
}

void nj_consider_keys(lua_State *L, nj_nearest *nearest, int table) {
    table = lua_absindex(L, table);
    int left = 512; // a plugin may have defined thousands
    lua_pushnil(L);
    while (left-- > 0 && lua_next(L, table)) {
        if (lua_type(L, -2) == LUA_TSTRING) nj_consider_name(nearest, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
    if (left < 0) lua_pop(L, 1);
}

// MARK: The error

// Functions that Lua has elsewhere, which most authors who write these names mean.
bool nj_is_left_out(const char *name) {
    static const char *const names[] = {"io", "debug", "package", "load", "loadstring", "loadfile", "dofile", "collectgarbage", "warn",
                                        "module", "setfenv", "getfenv", "unpack", "arg", "jit", "bit32", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

void nj_push_undefined(lua_State *L, const nj_nearest *nearest) {
    char shown[NJ_LONGEST_NAME * 2 + 1];
    size_t length = nearest->length < sizeof shown - 4 ? nearest->length : sizeof shown - 4;
    memcpy(shown, nearest->name, length);
    memcpy(shown + length, length < nearest->length ? "..." : "", length < nearest->length ? 4 : 1);
    if (strcmp(shown, "unpack") == 0)
        lua_pushliteral(L, "there is no variable 'unpack' in plugins; Lua 5.4 has table.unpack");
    else if (nj_is_left_out(shown))
        lua_pushfstring(L, "there is no '%s' in plugins; plugins/README.md lists what there is", shown);
    else if (nearest->distance < NJ_FAR)
        lua_pushfstring(L, "the variable '%s' is not defined; did you mean '%s'?", shown, nearest->found);
    else
        lua_pushfstring(
            L, "the variable '%s' is not defined: give it a value first (local %s = ...), or read _G.%s where it may be absent", shown,
            shown, shown);
}

// __index of the table behind the environment: table, name.
static int undefined(lua_State *L) {
    nj_state *S = nj_of(L);
    lua_settop(L, 2);
    if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1; // _ENV[1]: no variable has such a name
    nj_charge(L, S, 2048); // a script may catch the error and repeat the access
    luaL_checkstack(L, 8, "an undefined variable");
    nj_nearest nearest;
    nj_seek_nearest(&nearest, lua_tostring(L, 2));
    lua_Debug ar;
    bool known = false;
    for (int level = 1; level < 8 && !known && lua_getstack(L, level, &ar); level++) known = lua_getinfo(L, "Slf", &ar) && ar.currentline > 0;
    if (known) {
        const char *name;
        for (int i = 1; (name = lua_getlocal(L, &ar, i)) != NULL; i++) {
            nj_consider_name(&nearest, name);
            lua_pop(L, 1);
        }
        for (int i = 1; (name = lua_getupvalue(L, -1, i)) != NULL; i++) {
            nj_consider_name(&nearest, name);
            lua_pop(L, 1);
        }
    }
    nj_consider_keys(L, &nearest, 1);
    if (known) lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
    else lua_pushliteral(L, "");
    nj_push_undefined(L, &nearest);
    lua_concat(L, 2);
    return lua_error(L);
}

// MARK: The table behind the environment

bool nj_raises_undefined(lua_State *L, int base) {
    if (luaL_getmetafield(L, base, "__index") == LUA_TNIL) return false;
    bool raises = lua_tocfunction(L, -1) == undefined;
    lua_pop(L, 1);
    return raises;
}

void nj_set_undefined(lua_State *L, int metatable) {
    metatable = lua_absindex(L, metatable);
    lua_pushcfunction(L, undefined);
    lua_setfield(L, metatable, "__index");
}

static bool is_environment(lua_State *L, int base) {
    base = lua_absindex(L, base);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_environment) == LUA_TNIL || !nj_push_layer_base(L, -1)) return lua_pop(L, 1), false;
    bool is = lua_rawequal(L, -1, base);
    lua_pop(L, 2);
    return is;
}

// A plugin that gives the environment a metatable with an __index decides itself what happens with undefined variables; without an __index, or when
// the metatable is removed, they are errors.
void nj_keep_undefined(lua_State *L, int base, int metatable) {
    if (!is_environment(L, base)) return;
    metatable = lua_absindex(L, metatable);
    if (lua_isnil(L, metatable)) {
        lua_createtable(L, 0, 1);
        lua_replace(L, metatable);
    }
    lua_pushliteral(L, "__index");
    bool has_own = lua_rawget(L, metatable) != LUA_TNIL;
    lua_pop(L, 1);
    if (!has_own) nj_set_undefined(L, metatable);
}
