// Lua values to JSON text: raw access only, bounded, keys in ascending byte order so that every replica writes the same text.
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    lua_State *L;
    nj_state *S;
    nj_buffer *out;
    size_t most;
    const char *what;
    int nodes;
    struct {
        const char *key; // NULL: an index
        lua_Integer index;
    } path[NJ_DEEPEST + 2];
} writer;

// "merged document: at tags[3].name: …"
static int refuse(writer *w, int depth, const char *reason) {
    luaL_Buffer text;
    luaL_buffinit(w->L, &text);
    for (int i = 0; i < depth && i < NJ_DEEPEST; i++) {
        char piece[80];
        if (w->path[i].key == NULL) snprintf(piece, sizeof piece, "[%lld]", (long long)w->path[i].index);
        else snprintf(piece, sizeof piece, "%s%.60s", i > 0 ? "." : "", w->path[i].key);
        luaL_addstring(&text, piece);
        if (luaL_bufflen(&text) > 300) break;
    }
    bool is_root = depth == 0;
    luaL_pushresult(&text);
    if (is_root) return luaL_error(w->L, "%s: %s", w->what, reason);
    return luaL_error(w->L, "%s: at %s: %s", w->what, lua_tostring(w->L, -1), reason);
}

static void put(writer *w, const void *bytes, size_t length) {
    if (length > w->most - w->out->length) {
        luaL_error(w->L, "%s: larger than %d bytes of JSON (limit result bytes)", w->what, (int)w->most);
    }
    if (!nj_buffer_append(w->out, bytes, length)) luaL_error(w->L, "%s: the host is out of memory", w->what);
}

static void put_string(writer *w, const char *bytes, size_t length, int depth) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = (const uint8_t *)bytes, *end = p + length, *run = p;
    nj_charge(w->L, w->S, length >> 3);
    if (!nj_is_utf8(p, length)) refuse(w, depth, "a string is not valid UTF-8");
    put(w, "\"", 1);
    for (; p < end; p++) {
        uint8_t c = *p;
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        put(w, run, (size_t)(p - run));
        run = p + 1;
        char escape[6] = {'\\', (char)c, '0', '0', 0, 0};
        size_t n = 2;
        switch (c) {
        case '"': case '\\': break;
        case '\b': escape[1] = 'b'; break;
        case '\f': escape[1] = 'f'; break;
        case '\n': escape[1] = 'n'; break;
        case '\r': escape[1] = 'r'; break;
        case '\t': escape[1] = 't'; break;
        default:
            escape[1] = 'u';
            escape[4] = digits[c >> 4];
            escape[5] = digits[c & 15];
            n = 6;
        }
        put(w, escape, n);
    }
    put(w, run, (size_t)(end - run));
    put(w, "\"", 1);
}

static void put_number(writer *w, int index, int depth) {
    char text[40];
    int n;
    if (lua_isinteger(w->L, index)) {
        n = snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(w->L, index));
    } else {
        double value = lua_tonumber(w->L, index);
        if (!isfinite(value)) refuse(w, depth, "NaN and infinities are not JSON numbers");
        // The fewest digits that read back as the same number; ".0" keeps a double a double.
        for (int precision = 15; precision <= 17; precision++) {
            n = snprintf(text, sizeof text - 2, "%.*g", precision, value);
            if (strtod(text, NULL) == value) break;
        }
        if (strpbrk(text, ".e") == NULL) {
            text[n++] = '.';
            text[n++] = '0';
        }
    }
    put(w, text, (size_t)n);
}

static int compare_keys(const void *a, const void *b) {
    const nj_key *x = a, *y = b;
    size_t shared = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shared);
    if (order != 0) return order;
    return x->length < y->length ? -1 : x->length > y->length;
}

static void push_key(writer *w, const char *bytes, size_t length) {
    nj_state *S = w->S;
    if (S->key_count == S->key_capacity) {
        size_t capacity = S->key_capacity == 0 ? 64 : S->key_capacity * 2;
        nj_key *keys = realloc(S->keys, capacity * sizeof *keys);
        if (keys == NULL) luaL_error(w->L, "%s: the host is out of memory", w->what);
        S->keys = keys;
        S->key_capacity = capacity;
    }
    S->keys[S->key_count++] = (nj_key){bytes, length};
}

static void put_value(writer *w, int index, int depth, nj_role role);

static void put_table(writer *w, int table, int depth, nj_role role) {
    lua_State *L = w->L;
    nj_state *S = w->S;
    if (depth >= S->limits.result_depth) {
        char reason[80];
        snprintf(reason, sizeof reason, "nested deeper than %d, or a cycle (limit result depth)", S->limits.result_depth);
        refuse(w, depth, reason);
    }
    luaL_checkstack(L, 6, w->what);
    bool marked_array = false;
    bool marked = nj_is_marked(L, table, &marked_array);
    if (!marked && !nj_is_guarded(L, table) && lua_getmetatable(L, table)) refuse(w, depth, "a table with a metatable; give a plain one");

    // One raw pass: determines the kinds of keys, and collects the string keys for sorting. The table keeps the strings alive.
    size_t first = S->key_count;
    lua_Integer elements = 0, highest = 0;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        nj_charge(L, S, 1);
        if (lua_type(L, -1) == LUA_TSTRING) {
            size_t length;
            const char *bytes = lua_tolstring(L, -1, &length);
            push_key(w, bytes, length);
        } else if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1) {
            elements++;
            if (lua_tointeger(L, -1) > highest) highest = lua_tointeger(L, -1);
        } else {
            refuse(w, depth, "a key that is neither a string nor a whole number from 1");
        }
        if (elements + (lua_Integer)(S->key_count - first) > S->limits.result_nodes) {
            luaL_error(L, "%s: more than %d values (limit result nodes)", w->what, S->limits.result_nodes);
        }
    }
    size_t count = S->key_count - first;
    if (elements > 0 && count > 0) refuse(w, depth, "a table with both numbers and strings as keys");
    if (marked && marked_array && count > 0) refuse(w, depth, "an array with a string as key");
    if (marked && !marked_array && elements > 0) refuse(w, depth, "an object with a number as key");
    if (elements != highest) refuse(w, depth, "an array with holes; use nightjar.null for empty places");

    if (elements > 0 || (marked && marked_array)) {
        put(w, "[", 1);
        for (lua_Integer i = 1; i <= elements; i++) {
            if (i > 1) put(w, ",", 1);
            lua_rawgeti(L, table, i);
            w->path[depth].key = NULL;
            w->path[depth].index = i;
            put_value(w, lua_gettop(L), depth + 1, NJ_VALUE);
            lua_pop(L, 1);
        }
        put(w, "]", 1);
        return;
    }
    if (count > 1) {
        nj_charge(L, S, count * 4);
        qsort(S->keys + first, count, sizeof(nj_key), compare_keys);
    }
    put(w, "{", 1);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        nj_key key = S->keys[first + i]; // the array may move while values are written
        // Members that the engine adds to a document are not part of its body.
        if (role != NJ_VALUE && key.length > 0 && key.bytes[0] == '_') {
            if ((key.length == 3 && memcmp(key.bytes, "_id", 3) == 0) || (key.length == 4 && memcmp(key.bytes, "_rev", 4) == 0)) {
                continue;
            }
            if (key.length == 8 && memcmp(key.bytes, "_deleted", 8) == 0) {
                lua_pushlstring(L, key.bytes, key.length);
                lua_rawget(L, table);
                if (role == NJ_RETURNED && lua_toboolean(L, -1)) refuse(w, depth, "'_deleted' is set; return nightjar.delete to delete the document");
                lua_pop(L, 1);
                continue;
            }
        }
        if (any) put(w, ",", 1);
        any = true;
        put_string(w, key.bytes, key.length, depth);
        put(w, ":", 1);
        lua_pushlstring(L, key.bytes, key.length);
        lua_rawget(L, table);
        w->path[depth].key = key.bytes;
        put_value(w, lua_gettop(L), depth + 1, NJ_VALUE);
        lua_pop(L, 1);
    }
    put(w, "}", 1);
    S->key_count = first;
}

static void put_value(writer *w, int index, int depth, nj_role role) {
    lua_State *L = w->L;
    if (++w->nodes > w->S->limits.result_nodes) {
        luaL_error(L, "%s: more than %d values (limit result nodes)", w->what, w->S->limits.result_nodes);
    }
    switch (lua_type(L, index)) {
    case LUA_TNIL: refuse(w, depth, "nil is not a JSON value; use nightjar.null"); break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, index)) put(w, "true", 4);
        else put(w, "false", 5);
        break;
    case LUA_TNUMBER: put_number(w, index, depth); break;
    case LUA_TSTRING: {
        size_t length;
        const char *bytes = lua_tolstring(L, index, &length);
        put_string(w, bytes, length, depth);
        break;
    }
    case LUA_TLIGHTUSERDATA: {
        uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, index);
        if (handle == NJ_HANDLE_NULL) {
            put(w, "null", 4);
        } else if (handle == NJ_HANDLE_DELETE) {
            refuse(w, depth, "nightjar.delete is not a JSON value");
        } else { // a part of a document keeps its bytes
            nj_bytes raw = nj_slice(L, handle);
            put(w, raw.bytes, raw.length);
        }
        break;
    }
    case LUA_TTABLE: put_table(w, index, depth, role); break;
    case LUA_TUSERDATA:
        if (nj_is_readonly(L, index)) {
            luaL_checkstack(L, 4, w->what);
            nj_push_readonly_table(L, index);
            put_table(w, lua_gettop(L), depth, role);
            lua_pop(L, 1);
            break;
        }
        // fall through
    default: {
        char reason[80];
        snprintf(reason, sizeof reason, "a %s is not a JSON value", luaL_typename(L, index));
        refuse(w, depth, reason);
    }
    }
}

void nj_encode(lua_State *L, nj_state *S, int index, nj_buffer *out, size_t most, const char *what, nj_role role) {
    writer w = {.L = L, .S = S, .out = out, .most = most, .what = what};
    out->length = 0;
    S->key_count = 0; // an error may have left some
    put_value(&w, lua_absindex(L, index), 0, role);
}
