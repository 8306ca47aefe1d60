// JSON text to Lua values: numbers, strings, whole values. (encode.c goes the other way.)
#include "internal.h"

#include <math.h>
#include <stdlib.h>

#include "scan.h"

// MARK: Strings

static int hex4(const uint8_t *p, const uint8_t *end) {
    if (end - p < 4) return -1;
    int value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i];
        int digit = c >= '0' && c <= '9' ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

// *p: at a backslash; moved past the escape. Returns the number of bytes written, or -1. A lone surrogate, which cannot be represented in UTF-8,
// becomes U+FFFD.
int nj_unescape(const uint8_t **p, const uint8_t *end, uint8_t out[4]) {
    const uint8_t *q = *p + 1;
    if (q >= end) return -1;
    uint8_t c = *q++;
    switch (c) {
    case '"': case '\\': case '/': out[0] = c; break;
    case 'b': out[0] = '\b'; break;
    case 'f': out[0] = '\f'; break;
    case 'n': out[0] = '\n'; break;
    case 'r': out[0] = '\r'; break;
    case 't': out[0] = '\t'; break;
    case 'u': {
        int unit = hex4(q, end);
        if (unit < 0) return -1;
        q += 4;
        uint32_t scalar = (uint32_t)unit;
        if (unit >= 0xD800 && unit <= 0xDFFF) {
            scalar = 0xFFFD;
            if (unit <= 0xDBFF && end - q >= 6 && q[0] == '\\' && q[1] == 'u') {
                int low = hex4(q + 2, end);
                if (low >= 0xDC00 && low <= 0xDFFF) {
                    scalar = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
                    q += 6;
                }
            }
        }
        *p = q;
        if (scalar < 0x80) return out[0] = (uint8_t)scalar, 1;
        if (scalar < 0x800) {
            out[0] = (uint8_t)(0xC0 | scalar >> 6);
            out[1] = (uint8_t)(0x80 | (scalar & 63));
            return 2;
        }
        if (scalar < 0x10000) {
            out[0] = (uint8_t)(0xE0 | scalar >> 12);
            out[1] = (uint8_t)(0x80 | (scalar >> 6 & 63));
            out[2] = (uint8_t)(0x80 | (scalar & 63));
            return 3;
        }
        out[0] = (uint8_t)(0xF0 | scalar >> 18);
        out[1] = (uint8_t)(0x80 | (scalar >> 12 & 63));
        out[2] = (uint8_t)(0x80 | (scalar >> 6 & 63));
        out[3] = (uint8_t)(0x80 | (scalar & 63));
        return 4;
    }
    default: return -1;
    }
    *p = q;
    return 1;
}

// Decodes a string with escapes into the state's scratch bytes (never longer than its text). False: bad escape.
static bool push_escaped(lua_State *L, nj_state *S, const uint8_t *p, const uint8_t *end) {
    size_t raw = (size_t)(end - p);
    if (raw > 6 * (size_t)S->limits.block || !nj_buffer_reserve(&S->scratch, raw - S->scratch.length + 4)) {
        lua_pushlstring(L, (const char *)p, raw); // does not fit in either form: fails for lack of memory
        return true;
    }
    uint8_t *out = S->scratch.bytes;
    while (p < end) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        uint8_t piece[4];
        int n = nj_unescape(&p, end, piece);
        if (n <= 0) return false;
        memcpy(out, piece, (size_t)n);
        out += n;
    }
    lua_pushlstring(L, (const char *)S->scratch.bytes, (size_t)(out - S->scratch.bytes));
    return true;
}

// MARK: Numbers

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// RFC 8259 numbers. Integers that fit 64 bits are integers, all others are doubles; "-0" is a double, to preserve its sign.
bool nj_push_number(lua_State *L, const uint8_t *p, const uint8_t *end, const uint8_t **after) {
    const uint8_t *start = p;
    bool negative = p < end && *p == '-';
    if (negative) p++;
    if (p >= end || *p < '0' || *p > '9') return false;
    uint64_t mantissa = 0;
    int digits = 0; // significant ones taken in
    int exponent = 0;
    bool exact = true, integral = true;
    if (*p == '0') {
        p++;
    } else {
        for (; p < end && *p >= '0' && *p <= '9'; p++) {
            if (digits < 19) mantissa = mantissa * 10 + (uint64_t)(*p - '0'), digits++;
            else exact = false;
        }
    }
    if (p < end && *p == '.') {
        integral = false;
        p++;
        if (p >= end || *p < '0' || *p > '9') return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++) {
            if (digits < 19) {
                mantissa = mantissa * 10 + (uint64_t)(*p - '0');
                exponent--;
                if (mantissa != 0) digits++;
            } else {
                exact = false;
            }
        }
    }
    if (p < end && (*p | 0x20) == 'e') {
        integral = false;
        p++;
        bool down = false;
        if (p < end && (*p == '+' || *p == '-')) down = *p++ == '-';
        if (p >= end || *p < '0' || *p > '9') return false;
        int written = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++) {
            if (written < 100000) written = written * 10 + (*p - '0');
        }
        exponent += down ? -written : written;
    }
    *after = p;
    if (integral && exact && !(negative && mantissa == 0)) {
        if (mantissa <= (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
            lua_pushinteger(L, negative ? (lua_Integer)(0 - mantissa) : (lua_Integer)mantissa);
            return true;
        }
    }
    // Exact when both factors are doubles without rounding.
    if (exact && mantissa <= (1ull << 53) && exponent >= -22 && exponent <= 22) {
        double value = (double)mantissa;
        value = exponent < 0 ? value / powers_of_ten[-exponent] : value * powers_of_ten[exponent];
        lua_pushnumber(L, negative ? -value : value);
        return true;
    }
    char text[400];
    if ((size_t)(p - start) >= sizeof text) return false; // no double needs so many digits
    memcpy(text, start, (size_t)(p - start));
    text[p - start] = 0;
    double value = strtod(text, NULL);
    if (!isfinite(value)) return false;
    lua_pushnumber(L, value);
    return true;
}

// MARK: One value of a document

void nj_push_value(lua_State *L, nj_state *S, const uint8_t *p, const uint8_t *end, uint64_t handle) {
    switch (*p) {
    case '"': {
        bool escaped = false;
        const uint8_t *close = nj_string_end(p + 1, end, &escaped);
        if (close == NULL) break;
        nj_charge(L, S, (size_t)(close - p) >> 4);
        if (!escaped) lua_pushlstring(L, (const char *)p + 1, (size_t)(close - p - 1));
        else if (!push_escaped(L, S, p + 1, close)) break;
        return;
    }
    case '{': case '[': lua_pushlightuserdata(L, (void *)(uintptr_t)handle); return;
    case 't':
        if (end - p < 4 || memcmp(p, "true", 4) != 0) break;
        lua_pushboolean(L, 1);
        return;
    case 'f':
        if (end - p < 5 || memcmp(p, "false", 5) != 0) break;
        lua_pushboolean(L, 0);
        return;
    case 'n':
        if (end - p < 4 || memcmp(p, "null", 4) != 0) break;
        lua_pushlightuserdata(L, NULL);
        return;
    default: {
        const uint8_t *after;
        if (nj_push_number(L, p, end, &after)) return;
    }
    }
    luaL_error(L, "the document holds a value that is not valid JSON or not a finite number");
}

// MARK: Whole texts

typedef struct {
    lua_State *L;
    nj_state *S;
    const uint8_t *start, *end;
    const char *what;
    int nodes;
    bool is_stored; // a document's body: it was validated when stored, by the rules of that time
} reader;

static int bad(reader *r, const uint8_t *p, const char *reason) {
    return luaL_error(r->L, "%s: %s at byte %d", r->what, reason, (int)(p - r->start) + 1);
}

static const uint8_t *lone_surrogate(const uint8_t *p, const uint8_t *end) {
    for (; p < end; p++) {
        if (*p != '\\') continue;
        const uint8_t *escape = p++;
        if (p >= end || *p != 'u') continue;
        int unit = hex4(p + 1, end);
        if (unit < 0xD800 || unit > 0xDFFF) continue;
        int low = unit <= 0xDBFF && end - p >= 11 && p[5] == '\\' && p[6] == 'u' ? hex4(p + 7, end) : -1;
        if (low < 0xDC00 || low > 0xDFFF) return escape;
        p += 10;
    }
    return NULL;
}

static const uint8_t *read_string(reader *r, const uint8_t *p) {
    bool escaped = false;
    const uint8_t *close = nj_string_end(p + 1, r->end, &escaped);
    if (close == NULL) bad(r, p, "string without an end");
    size_t length = (size_t)(close - p - 1);
    nj_charge(r->L, r->S, 1 + (length >> 3));
    for (size_t i = 0; i < length; i++) {
        if (p[1 + i] < 0x20) bad(r, p + 1 + i, "control character in a string");
    }
    if (!nj_is_utf8(p + 1, length)) bad(r, p, "string is not valid UTF-8");
    const uint8_t *lone = escaped && !r->is_stored ? lone_surrogate(p + 1, close) : NULL;
    if (lone != NULL) bad(r, lone, "half of a surrogate pair");
    if (!escaped) lua_pushlstring(r->L, (const char *)p + 1, length);
    else if (!push_escaped(r->L, r->S, p + 1, close)) bad(r, p, "bad escape in a string");
    return close + 1;
}

// Recursion is bounded by the depth limit, which is at most NJ_DEEPEST.
static const uint8_t *read_value(reader *r, const uint8_t *p, int depth) {
    lua_State *L = r->L;
    if (++r->nodes > r->S->limits.result_nodes)
        luaL_error(L, "%s: more than %d values (limit result nodes)", r->what, r->S->limits.result_nodes);
    p = nj_space(p, r->end);
    if (p >= r->end) bad(r, p, "text ends early");
    if (*p == '"') return read_string(r, p);
    if (*p != '{' && *p != '[') {
        const uint8_t *after = p;
        size_t left = (size_t)(r->end - p);
        if (left >= 4 && memcmp(p, "true", 4) == 0) lua_pushboolean(L, 1), after = p + 4;
        else if (left >= 5 && memcmp(p, "false", 5) == 0) lua_pushboolean(L, 0), after = p + 5;
        else if (left >= 4 && memcmp(p, "null", 4) == 0) lua_pushlightuserdata(L, NULL), after = p + 4;
        else if (!nj_push_number(L, p, r->end, &after)) bad(r, p, "no JSON value, or no finite number,");
        nj_charge(L, r->S, 1);
        return after;
    }
    if (depth >= r->S->limits.result_depth)
        luaL_error(L, "%s: nested deeper than %d (limit result depth)", r->what, r->S->limits.result_depth);
    luaL_checkstack(L, 6, r->what);
    bool is_array = *p == '[';
    uint8_t close = is_array ? ']' : '}';
    lua_newtable(L);
    if (is_array) {
        nj_push_marker(L, true);
        lua_setmetatable(L, -2);
    }
    p = nj_space(p + 1, r->end);
    if (p < r->end && *p == close) return p + 1;
    for (lua_Integer index = 1;; index++) {
        if (is_array) {
            p = read_value(r, p, depth + 1);
            lua_rawseti(L, -2, index);
        } else {
            if (p >= r->end || *p != '"') bad(r, p, "expected a key");
            const uint8_t *key = p;
            p = nj_space(read_string(r, p), r->end);
            if (p >= r->end || *p != ':') bad(r, p, "expected ':'");
            // Readers differ in which of two equal keys they use, so such text is refused.
            lua_pushvalue(L, -1);
            if (lua_rawget(L, -3) != LUA_TNIL) bad(r, key, "a key appears twice");
            lua_pop(L, 1);
            p = read_value(r, p + 1, depth + 1);
            lua_rawset(L, -3);
        }
        p = nj_space(p, r->end);
        if (p >= r->end) bad(r, p, "text ends early");
        if (*p == close) return p + 1;
        if (*p != ',') bad(r, p, is_array ? "expected ',' or ']'" : "expected ',' or '}'");
        p = nj_space(p + 1, r->end);
    }
}

static void decode(lua_State *L, nj_state *S, nj_bytes text, const char *what, bool is_stored) {
    reader r = {L, S, text.bytes, (const uint8_t *)text.bytes + text.length, what, 0, is_stored};
    const uint8_t *p = nj_space(read_value(&r, r.start, 0), r.end);
    if (p < r.end) bad(&r, p, "more text after the value");
}

void nj_decode(lua_State *L, nj_state *S, nj_bytes text, const char *what) { decode(L, S, text, what, false); }

void nj_decode_stored(lua_State *L, nj_state *S, nj_bytes text, const char *what) { decode(L, S, text, what, true); }
