// utf8.codes as in later versions of Lua: Lua 5.4.4's own skips stray continuation bytes.
#include "internal.h"

static bool continues(const uint8_t *p, const uint8_t *end) { return p < end && (*p & 0xC0) == 0x80; }

// The bytes of the character at p, or 0. lax: up to 2^31, and surrogates.
static size_t decode(const uint8_t *p, const uint8_t *end, bool lax, uint32_t *code) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000, 0x200000, 0x4000000};
    uint8_t first = *p;
    if (first < 0x80) return *code = first, 1;
    size_t more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF8 ? 3 : first < 0xFC ? 4 : first < 0xFE ? 5 : 0;
    if (more == 0 || (size_t)(end - p) <= more) return 0;
    uint32_t value = first & (0x3Fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if (!continues(p + i, end)) return 0;
        value = value << 6 | (p[i] & 0x3Fu);
    }
    if (value < least[more]) return 0;
    if (!lax && (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))) return 0;
    *code = value;
    return more + 1;
}

static int next_code(lua_State *L, bool lax) {
    size_t length;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 1, &length), *end = s + length;
    lua_Integer last = lua_tointeger(L, 2);
    if (last < 0 || (size_t)last > length) return 0;
    const uint8_t *p = s + last, *from = p;
    while (continues(p, end)) p++;
    nj_charge(L, nj_of(L), (size_t)(p - from) >> 2);
    if (p >= end) return 0;
    uint32_t code;
    size_t n = decode(p, end, lax, &code);
    if (n == 0 || continues(p + n, end)) return luaL_error(L, "invalid UTF-8 code");
    lua_pushinteger(L, p - s + 1);
    lua_pushinteger(L, code);
    return 2;
}

static int next_strict(lua_State *L) { return next_code(L, false); }
static int next_lax(lua_State *L) { return next_code(L, true); }

int nj_utf8_codes(lua_State *L) {
    size_t length;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 1, &length);
    luaL_argcheck(L, !continues(s, s + length), 1, "invalid UTF-8 code");
    lua_pushcfunction(L, lua_toboolean(L, 2) ? next_lax : next_strict);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}
