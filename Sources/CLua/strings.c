// The string library: the budgeted matcher, and guarded rep and format. The rest is Lua's own.
#define _GNU_SOURCE
#include "pattern.h"

#include <stdio.h>

// Storage for most patterns on the C stack; longer ones live in a userdata on the Lua stack.
typedef union {
    nj_item aligned;
    uint8_t bytes[640]; // patterns of some 35 characters; frames nest 200 deep when callbacks call gsub again
} small_storage;

static void compile(lua_State *L, nj_pattern *pattern, small_storage *small, const char *text, size_t length, bool with_anchor) {
    size_t size = nj_pattern_size(text, length);
    void *storage = size <= sizeof *small ? small : lua_newuserdatauv(L, size, 0);
    nj_pattern_compile(L, pattern, storage, text, length, with_anchor);
}

static size_t start_of(lua_State *L, int argument, size_t length) {
    lua_Integer init = luaL_optinteger(L, argument, 1);
    if (init > 0) return (size_t)init - 1;
    if (init == 0 || init < -(lua_Integer)length) return 0;
    return length - (size_t)(-init);
}

static int find_or_match(lua_State *L, bool find) {
    size_t length, pattern_length;
    const char *subject = luaL_checklstring(L, 1, &length);
    const char *text = luaL_checklstring(L, 2, &pattern_length);
    size_t init = start_of(L, 3, length);
    if (init > length) return lua_pushnil(L), 1;
    nj_state *S = nj_of(L);
    bool plain = find && lua_toboolean(L, 4);
    if (find && !plain) {
        plain = true;
        for (size_t i = 0; i < pattern_length && plain; i++) plain = strchr("^$*+?.([%-", text[i]) == NULL || text[i] == 0;
    }
    if (plain) {
        nj_charge(L, S, (length - init + pattern_length) >> 4);
        const char *at = pattern_length == 0 ? subject + init : memmem(subject + init, length - init, text, pattern_length);
        if (at == NULL) return lua_pushnil(L), 1;
        lua_pushinteger(L, at - subject + 1);
        lua_pushinteger(L, at - subject + (lua_Integer)pattern_length);
        return 2;
    }
    lua_settop(L, 4);
    small_storage small;
    nj_pattern pattern;
    compile(L, &pattern, &small, text, pattern_length, true);
    nj_matcher m = {.L = L, .S = S, .pattern = &pattern, .subject = (const uint8_t *)subject};
    m.end = m.subject + length;
    const uint8_t *s = m.subject + init;
    do {
        const uint8_t *end = nj_match_at(&m, s);
        if (end != NULL) {
            if (!find) return nj_push_captures(&m, s, end, true);
            lua_pushinteger(L, s - m.subject + 1);
            lua_pushinteger(L, end - m.subject);
            return nj_push_captures(&m, s, end, false) + 2;
        }
    } while (!pattern.anchored && s++ < m.end);
    lua_pushnil(L);
    return 1;
}

static int find(lua_State *L) { return find_or_match(L, true); }
static int match(lua_State *L) { return find_or_match(L, false); }

// MARK: gmatch

typedef struct {
    nj_pattern pattern;
    size_t next;
    size_t last; // end of the last match + 1; 0: none. An empty match may not end there again.
} iteration;

static int gmatch_next(lua_State *L) {
    size_t length;
    const char *subject = lua_tolstring(L, lua_upvalueindex(1), &length);
    iteration *it = lua_touserdata(L, lua_upvalueindex(3));
    nj_matcher m = {.L = L, .S = nj_of(L), .pattern = &it->pattern, .subject = (const uint8_t *)subject};
    m.end = m.subject + length;
    for (size_t at = it->next; at <= length; at++) {
        const uint8_t *s = m.subject + at, *end = nj_match_at(&m, s);
        if (end == NULL || (size_t)(end - m.subject) + 1 == it->last) continue;
        it->next = (size_t)(end - m.subject);
        it->last = it->next + 1;
        return nj_push_captures(&m, s, end, true);
    }
    it->next = length + 1;
    return 0;
}

static int gmatch(lua_State *L) {
    size_t length, pattern_length;
    luaL_checklstring(L, 1, &length);
    const char *text = luaL_checklstring(L, 2, &pattern_length);
    size_t init = start_of(L, 3, length);
    lua_settop(L, 2);
    // Items and sets follow the iteration in one userdata that scripts never see.
    size_t head = (sizeof(iteration) + 15) / 16 * 16;
    iteration *it = lua_newuserdatauv(L, head + nj_pattern_size(text, pattern_length), 0);
    nj_pattern_compile(L, &it->pattern, (uint8_t *)it + head, text, pattern_length, false);
    it->next = init > length ? length + 1 : init;
    it->last = 0;
    lua_pushcclosure(L, gmatch_next, 3);
    return 1;
}

// MARK: gsub

// Appends the replacement of one match, or the match itself if the replacement is nil or false.
static void add_replacement(nj_matcher *m, luaL_Buffer *out, const uint8_t *from, const uint8_t *to, int type) {
    lua_State *L = m->L;
    if (type == LUA_TSTRING) {
        size_t length;
        const char *text = lua_tolstring(L, 3, &length), *end = text + length;
        nj_charge(L, m->S, length >> 4);
        while (text < end) {
            const char *percent = memchr(text, '%', (size_t)(end - text));
            if (percent == NULL) percent = end;
            luaL_addlstring(out, text, (size_t)(percent - text));
            if (percent == end) break;
            if (percent + 1 == end) luaL_error(L, "invalid use of '%%' in replacement string");
            char c = percent[1];
            if (c == '%') {
                luaL_addchar(out, '%');
            } else if (c == '0') {
                luaL_addlstring(out, (const char *)from, (size_t)(to - from));
            } else if (c >= '1' && c <= '9') {
                if (c - '1' >= m->pattern->captures && c != '1')
                    luaL_error(L, "invalid capture index %%%d in replacement string", c - '0');
                nj_push_capture(m, c - '1', from, to);
                luaL_tolstring(L, -1, NULL); // a position capture is an integer
                lua_remove(L, -2);
                luaL_addvalue(out);
            } else {
                luaL_error(L, "invalid use of '%%' in replacement string");
            }
            text = percent + 2;
        }
        return;
    }
    if (type == LUA_TTABLE) {
        nj_push_capture(m, 0, from, to);
        lua_gettable(L, 3);
    } else {
        lua_pushvalue(L, 3);
        lua_call(L, nj_push_captures(m, from, to, true), 1);
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(out, (const char *)from, (size_t)(to - from));
    } else if (lua_isstring(L, -1)) {
        luaL_addvalue(out);
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

static int gsub(lua_State *L) {
    size_t length, pattern_length;
    const char *subject = luaL_checklstring(L, 1, &length);
    const char *text = luaL_checklstring(L, 2, &pattern_length);
    int type = lua_type(L, 3);
    luaL_argexpected(
        L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE || nj_is_document(L, 3), 3,
        "string/function/table");
    if (type == LUA_TNUMBER) {
        lua_tostring(L, 3);
        type = LUA_TSTRING;
    } else if (type == LUA_TLIGHTUSERDATA) {
        type = LUA_TTABLE; // a document's object
    }
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1);
    lua_settop(L, 4);
    small_storage small;
    nj_pattern pattern;
    compile(L, &pattern, &small, text, pattern_length, true);
    nj_matcher m = {.L = L, .S = nj_of(L), .pattern = &pattern, .subject = (const uint8_t *)subject};
    m.end = m.subject + length;
    const uint8_t *s = m.subject, *last = NULL, *copied = s;
    lua_Integer count = 0;
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    while (count < most) {
        const uint8_t *end = nj_match_at(&m, s);
        if (end != NULL && end != last) {
            count++;
            luaL_addlstring(&out, (const char *)copied, (size_t)(s - copied));
            add_replacement(&m, &out, s, end, type);
            s = last = copied = end;
        } else if (s < m.end) {
            s++;
        } else {
            break;
        }
        if (pattern.anchored) break;
    }
    if (count == 0) {
        lua_pushvalue(L, 1);
    } else {
        luaL_addlstring(&out, (const char *)copied, (size_t)(m.end - copied));
        luaL_pushresult(&out);
    }
    lua_pushinteger(L, count);
    return 2;
}

// MARK: rep and format

static int rep(lua_State *L) {
    size_t length, separator_length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_Integer times = luaL_checkinteger(L, 2);
    const char *separator = luaL_optlstring(L, 3, "", &separator_length);
    size_t each = length + separator_length;
    if (times <= 0 || each == 0) return lua_pushliteral(L, ""), 1;
    size_t most = (size_t)nj_of(L)->limits.block - 64; // a string's own header
    if ((lua_Unsigned)times > most / each + 1 || each * (size_t)times - separator_length > most) {
        return luaL_error(L, "resulting string too large (limit block: %d bytes)", (int)most);
    }
    size_t total = each * (size_t)times - separator_length;
    nj_charge(L, nj_of(L), total >> 4);
    luaL_Buffer out;
    char *p = luaL_buffinitsize(L, &out, total);
    for (lua_Integer i = 0; i < times; i++) {
        memcpy(p, text, length);
        p += length;
        if (i + 1 < times) {
            memcpy(p, separator, separator_length);
            p += separator_length;
        }
    }
    luaL_pushresultsize(&out, total);
    return 1;
}

// Lua's own format, after its arguments for %s were converted to text without addresses; %p is refused.
static int format(lua_State *L) {
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length), *end = text + length;
    int argument = 1, top = lua_gettop(L);
    for (const char *p = text; p < end; p++) {
        if (*p != '%') continue;
        if (++p < end && *p == '%') continue;
        while (p < end && strchr("-+ #0123456789.", *p) != NULL && *p != 0) p++;
        if (p >= end) break;
        argument++;
        if (*p == 'p') return luaL_error(L, "'%%p' is not available in plugins");
        if (*p == 's' && argument <= top && lua_type(L, argument) != LUA_TSTRING) {
            nj_push_text(L, argument);
            lua_replace(L, argument);
        }
    }
    nj_check_arguments(L, nj_of(L));
    nj_charge(L, nj_of(L), (length >> 2) + 16 * (size_t)argument);
    return lua_tocfunction(L, lua_upvalueindex(1))(L); // in this frame: its errors name the script's line
}

void nj_open_strings(lua_State *L) {
    static const char *const kept[] = {"byte", "len", "lower", "upper", "reverse", "sub", NULL};
    static const luaL_Reg own[] = {
        {"find", find}, {"match", match}, {"gmatch", gmatch}, {"gsub", gsub}, {"rep", rep}, {NULL, NULL}};
    int stock = lua_gettop(L);
    luaL_newlib(L, own);
    for (int i = 0; kept[i] != NULL; i++) {
        lua_getfield(L, stock, kept[i]);
        lua_setfield(L, -2, kept[i]);
    }
    lua_getfield(L, stock, "char");
    nj_wrap_charged_for_all(L);
    lua_setfield(L, -2, "char");
    lua_getfield(L, stock, "format");
    lua_pushcclosure(L, format, 1);
    lua_setfield(L, -2, "format");
}
