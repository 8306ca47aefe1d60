// The table library for plain tables only, with bounded ranges. concat, unpack and # also accept a document's arrays.
#include "internal.h"

// More elements than any table can hold under the block limit; a border beyond it comes from a crafted hash part.
enum { NJ_MOST_PLACES = 1 << 20 };

bool nj_is_marked(lua_State *L, int index, bool *is_array) {
    if (!lua_getmetatable(L, index)) return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_array);
    bool array = lua_rawequal(L, -1, -2);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_object);
    bool object = lua_rawequal(L, -1, -3);
    lua_pop(L, 3);
    *is_array = array;
    return array || object;
}

void nj_push_marker(lua_State *L, bool is_array) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, is_array ? &nj_key_array : &nj_key_object);
}

bool nj_is_plain(lua_State *L, int index) {
    bool is_array;
    if (nj_is_marked(L, index, &is_array)) return true;
    if (!lua_getmetatable(L, index)) return true;
    lua_pop(L, 1);
    return false;
}

void nj_check_plain(lua_State *L, int argument) {
    if (nj_is_document(L, argument)) {
        luaL_argerror(L, argument, "the document is read-only; nightjar.copy gives a table to edit");
    }
    luaL_checktype(L, argument, LUA_TTABLE);
    if (!nj_is_plain(L, argument)) luaL_argerror(L, argument, "table without a metatable expected");
}

static lua_Integer length_of(lua_State *L, int argument) {
    lua_Unsigned n = lua_rawlen(L, argument);
    if (n > NJ_MOST_PLACES) luaL_argerror(L, argument, "table too long");
    return (lua_Integer)n;
}

static int insert(lua_State *L) {
    nj_check_plain(L, 1);
    lua_Integer end = length_of(L, 1) + 1, position = end;
    switch (lua_gettop(L)) {
    case 2: break;
    case 3:
        position = luaL_checkinteger(L, 2);
        luaL_argcheck(L, position >= 1 && position <= end, 2, "position out of bounds");
        nj_charge(L, nj_of(L), (size_t)(end - position));
        for (lua_Integer i = end; i > position; i--) {
            lua_rawgeti(L, 1, i - 1);
            lua_rawseti(L, 1, i);
        }
        break;
    default: return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_rawseti(L, 1, position);
    return 0;
}

static int remove_at(lua_State *L) {
    nj_check_plain(L, 1);
    lua_Integer size = length_of(L, 1), position = luaL_optinteger(L, 2, size);
    if (lua_gettop(L) > 1) luaL_argcheck(L, (size == 0 && position == 0) || (position >= 1 && position <= size + 1), 2, "position out of bounds");
    lua_rawgeti(L, 1, position);
    if (position < size) nj_charge(L, nj_of(L), (size_t)(size - position));
    for (; position < size; position++) {
        lua_rawgeti(L, 1, position + 1);
        lua_rawseti(L, 1, position);
    }
    if (position >= 1 && position <= size) {
        lua_pushnil(L);
        lua_rawseti(L, 1, position);
    }
    return 1;
}

static int move(lua_State *L) {
    nj_check_plain(L, 1);
    lua_Integer from = luaL_checkinteger(L, 2), end = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    nj_check_plain(L, target);
    if (end >= from) {
        luaL_argcheck(L, from > 0 || end < LUA_MAXINTEGER + from, 3, "too many elements to move");
        lua_Integer count = end - from + 1;
        luaL_argcheck(L, count <= NJ_MOST_PLACES, 3, "too many elements to move");
        luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
        nj_charge(L, nj_of(L), (size_t)count);
        bool upward = to > end || to <= from || (target != 1 && !lua_rawequal(L, 1, target));
        for (lua_Integer i = 0; i < count; i++) {
            lua_Integer at = upward ? i : count - 1 - i;
            lua_rawgeti(L, 1, from + at);
            lua_rawseti(L, target, to + at);
        }
    }
    lua_pushvalue(L, target);
    return 1;
}

static lua_Integer end_of(lua_State *L, int argument) {
    if (nj_is_document(L, 1)) return luaL_opt(L, luaL_checkinteger, argument, nj_document_length(L, (uint64_t)(uintptr_t)lua_touserdata(L, 1)));
    nj_check_plain(L, 1);
    return luaL_opt(L, luaL_checkinteger, argument, length_of(L, 1));
}

static void push_element(lua_State *L, lua_Integer i) {
    if (lua_istable(L, 1)) lua_rawgeti(L, 1, i);
    else lua_geti(L, 1, i); // a document: its own metamethod
}

static int concat(lua_State *L) {
    size_t separator_length;
    const char *separator = luaL_optlstring(L, 2, "", &separator_length);
    lua_Integer first = luaL_optinteger(L, 3, 1), last = end_of(L, 4);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    for (lua_Integer i = first; i <= last; i++) {
        push_element(L, i);
        if (!lua_isstring(L, -1)) {
            return luaL_error(L, "invalid value (a %s) at index %I in table for 'concat'", luaL_typename(L, -1), (LUAI_UACINT)i);
        }
        nj_charge(L, nj_of(L), 1 + (lua_rawlen(L, -1) >> 6));
        luaL_addvalue(&text);
        if (i == last) break; // the end of the range may be the largest integer
        luaL_addlstring(&text, separator, separator_length);
    }
    luaL_pushresult(&text);
    return 1;
}

static int unpack(lua_State *L) {
    lua_Integer first = luaL_optinteger(L, 2, 1), last = end_of(L, 3);
    if (first > last) return 0;
    lua_Unsigned count = (lua_Unsigned)last - (lua_Unsigned)first;
    if (count >= NJ_MOST_PLACES || !lua_checkstack(L, (int)(count + 1))) return luaL_error(L, "too many results to unpack");
    nj_charge(L, nj_of(L), (size_t)count);
    for (lua_Integer i = first; i < last; i++) push_element(L, i);
    push_element(L, last);
    return (int)count + 1;
}

static int pack(lua_State *L) {
    int count = lua_gettop(L);
    lua_createtable(L, count, 1);
    lua_insert(L, 1);
    for (int i = count; i >= 1; i--) lua_rawseti(L, 1, i);
    lua_pushinteger(L, count);
    lua_setfield(L, 1, "n");
    return 1;
}

// MARK: sort

static size_t text_length(lua_State *L, int index) { return lua_type(L, index) == LUA_TSTRING ? lua_rawlen(L, index) : 0; }

// Is the value at a before the one at b? Texts are charged by length: comparing two long ones is one step for Lua, and a comparator or a metamethod
// may be a library function, which reads them (math.max as a number) without an instruction in between.
static bool before(lua_State *L, int a, int b) {
    size_t x = text_length(L, a), y = text_length(L, b);
    bool are_texts = lua_type(L, a) == LUA_TSTRING && lua_type(L, b) == LUA_TSTRING;
    if (lua_isnil(L, 2)) {
        nj_charge(L, nj_of(L), 1 + (are_texts ? (x < y ? x : y) >> 4 : (x + y) >> 1));
        return lua_compare(L, a, b, LUA_OPLT);
    }
    nj_charge(L, nj_of(L), 1 + (lua_iscfunction(L, 2) ? (x + y) >> 1 : 0));
    a = lua_absindex(L, a);
    b = lua_absindex(L, b);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    bool is = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is;
}

// Sinks the value on top of the stack (popped) from `hole` into the heap of `size` elements.
static void sink(lua_State *L, lua_Integer hole, lua_Integer size) {
    int value = lua_gettop(L);
    for (;;) {
        lua_Integer child = hole * 2;
        if (child > size) break;
        lua_rawgeti(L, 1, child);
        if (child < size) {
            lua_rawgeti(L, 1, child + 1);
            if (before(L, -2, -1)) {
                lua_remove(L, -2);
                child++;
            } else {
                lua_pop(L, 1);
            }
        }
        if (!before(L, value, -1)) {
            lua_pop(L, 1);
            break;
        }
        lua_rawseti(L, 1, hole);
        hole = child;
    }
    lua_rawseti(L, 1, hole);
}

// Heap sort: n log n comparisons whatever the comparator answers, and every access stays inside 1…n.
static int sort(lua_State *L) {
    nj_check_plain(L, 1);
    lua_Integer size = length_of(L, 1);
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    for (lua_Integer i = size / 2; i >= 1; i--) {
        lua_rawgeti(L, 1, i);
        sink(L, i, size);
    }
    for (lua_Integer last = size; last > 1; last--) {
        lua_rawgeti(L, 1, last);
        lua_rawgeti(L, 1, 1);
        lua_rawseti(L, 1, last);
        sink(L, 1, last - 1);
    }
    return 0;
}

void nj_open_tables(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"insert", insert}, {"remove", remove_at}, {"move", move}, {"concat", concat}, {"unpack", unpack}, {"pack", pack},
        {"sort", sort}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
