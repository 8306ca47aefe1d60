// nightjar.base64, glob, cidr and time: pure functions of texts.
#define _GNU_SOURCE
#include "internal.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// MARK: base64 (RFC 4648, padded)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_encode(lua_State *L) {
    size_t length;
    const uint8_t *p = (const uint8_t *)luaL_checklstring(L, 1, &length);
    size_t total = (length + 2) / 3 * 4;
    if (total > (size_t)nj_of(L)->limits.block - 64) return luaL_error(L, "resulting string too large (limit block)");
    nj_charge(L, nj_of(L), length >> 2);
    luaL_Buffer buffer;
    char *out = luaL_buffinitsize(L, &buffer, total);
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        *out++ = alphabet[bits >> 18];
        *out++ = alphabet[bits >> 12 & 63];
        *out++ = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[bits & 63] : '=';
    }
    luaL_pushresultsize(&buffer, total);
    return 1;
}

static int base64_decode(lua_State *L) {
    size_t length;
    const char *p = luaL_checklstring(L, 1, &length);
    nj_charge(L, nj_of(L), length >> 2);
    size_t padding = 0;
    while (padding < 2 && padding < length && p[length - 1 - padding] == '=') padding++;
    if (length % 4 != 0) goto bad;
    luaL_Buffer buffer;
    char *out = luaL_buffinitsize(L, &buffer, length / 4 * 3 + 1), *start = out;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 4; k++) {
            const char *at = memchr(alphabet, p[i + k], 64);
            bool is_padding = i + k >= length - padding;
            if (at == NULL && !is_padding) goto bad;
            bits = bits << 6 | (is_padding ? 0 : (uint32_t)(at - alphabet));
        }
        *out++ = (char)(bits >> 16);
        *out++ = (char)(bits >> 8);
        *out++ = (char)bits;
    }
    luaL_pushresultsize(&buffer, (size_t)(out - start) - padding);
    return 1;
bad:
    lua_pushnil(L);
    lua_pushliteral(L, "not base64 text");
    return 2;
}

// MARK: glob: '*' any bytes, '?' one character, '[a-z]' and '[!a-z]' sets of bytes, '\' makes the next byte a literal

static size_t character_length(const uint8_t *s, const uint8_t *end) {
    size_t n = 1;
    if (*s >= 0xC0) {
        while (n < 4 && s + n < end && (s[n] & 0xC0) == 0x80) n++;
    }
    return n;
}

// Matches one element of the pattern at s: returns the number of bytes consumed, or 0. Sets *after.
static size_t glob_one(
    const uint8_t *p, const uint8_t *p_end, const uint8_t *s, const uint8_t *s_end, const uint8_t **after, size_t *looked_at) {
    if (*p == '[') {
        const uint8_t *q = p + 1;
        bool negated = q < p_end && (*q == '!' || *q == '^'), found = false, first = true;
        if (negated) q++;
        while (q < p_end && (*q != ']' || first)) {
            first = false;
            uint8_t low = *q, high = low;
            if (p_end - q > 2 && q[1] == '-' && q[2] != ']') {
                high = q[2];
                q += 2;
            }
            q++;
            if (s < s_end && *s >= low && *s <= high) found = true;
        }
        *looked_at = (size_t)(q - p);
        if (q < p_end) { // otherwise there is no ']', and the bracket is a literal
            *after = q + 1;
            return s < s_end && found != negated ? 1 : 0;
        }
    }
    if (*p == '\\' && p_end - p > 1) p++;
    else if (*p == '?') {
        *after = p + 1;
        return s < s_end ? character_length(s, s_end) : 0;
    }
    *after = p + 1;
    return s < s_end && *s == *p ? 1 : 0;
}

// Backtracks only to the last '*', so the cost is at most pattern times text; it is charged.
static int glob(lua_State *L) {
    size_t n, m;
    const uint8_t *p = (const uint8_t *)luaL_checklstring(L, 1, &n), *p_end = p + n;
    const uint8_t *s = (const uint8_t *)luaL_checklstring(L, 2, &m), *s_end = s + m;
    const uint8_t *star = NULL, *star_text = NULL;
    nj_state *S = nj_of(L);
    unsigned steps = 0;
    bool matches = true;
    while (s < s_end || p < p_end) {
        if ((++steps & 63) == 0) nj_charge(L, S, 64);
        if (p < p_end && *p == '*') {
            star = ++p;
            star_text = s;
            continue;
        }
        if (p < p_end) {
            const uint8_t *after = p;
            size_t looked_at = 0;
            size_t taken = glob_one(p, p_end, s, s_end, &after, &looked_at);
            if (looked_at > 16) nj_charge(L, S, looked_at >> 2);
            if (taken > 0) {
                p = after;
                s += taken;
                continue;
            }
        }
        if (star == NULL || star_text >= s_end) {
            matches = false;
            break;
        }
        p = star;
        s = ++star_text;
    }
    lua_pushboolean(L, matches);
    return 1;
}

// MARK: cidr

// 16 bytes, IPv4 as ::ffff:a.b.c.d. Accepts "[::1]:4984", "192.0.2.1:4984" and zone ids too.
static bool parse_address(const char *text, size_t length, uint8_t out[16], bool *is_v4) {
    char copy[80];
    if (length == 0 || length >= sizeof copy || memchr(text, 0, length) != NULL) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    char *start = copy;
    if (*start == '[') {
        char *close = strchr(++start, ']');
        if (close == NULL) return false;
        *close = 0;
    } else {
        char *colon = strchr(start, ':');
        if (colon != NULL && strchr(colon + 1, ':') == NULL) *colon = 0;
    }
    char *zone = strchr(start, '%');
    if (zone != NULL) *zone = 0;
    struct in_addr v4;
    if (inet_pton(AF_INET, start, &v4) == 1) {
        memset(out, 0, 10);
        out[10] = out[11] = 0xFF;
        memcpy(out + 12, &v4, 4);
        *is_v4 = true;
        return true;
    }
    *is_v4 = false;
    return inet_pton(AF_INET6, start, out) == 1;
}

static int cidr(lua_State *L) {
    size_t length, range_length;
    const char *range = luaL_checklstring(L, 1, &range_length), *address = luaL_checklstring(L, 2, &length);
    const char *slash = memchr(range, '/', range_length);
    uint8_t network[16], host[16];
    bool is_v4, host_is_v4;
    size_t network_length = slash == NULL ? range_length : (size_t)(slash - range);
    bool valid = memchr(range, 0, range_length) == NULL && parse_address(range, network_length, network, &is_v4);
    long bits = valid && is_v4 ? 32 : 128;
    if (valid && slash != NULL) {
        char *end;
        long given = strtol(slash + 1, &end, 10);
        valid = slash[1] >= '0' && slash[1] <= '9' && *end == 0 && given <= bits;
        bits = given;
    }
    if (!valid) return luaL_error(L, "'%s' is not an address range like 10.0.0.0/8 or fd00::/8", range);
    if (is_v4) bits += 96;
    if (!parse_address(address, length, host, &host_is_v4)) return lua_pushboolean(L, 0), 1;
    bool inside = memcmp(network, host, (size_t)bits / 8) == 0;
    if (inside && bits % 8 != 0) inside = ((network[bits / 8] ^ host[bits / 8]) >> (8 - bits % 8)) == 0;
    lua_pushboolean(L, inside);
    return 1;
}

// MARK: time (ISO 8601, UTC)

static int64_t days_from_civil(int64_t y, int m, int d) { // days since 1970-01-01 in the Gregorian calendar
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, year = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static void civil_from_days(int64_t z, int64_t *y, int *m, int *d) {
    z += 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097, day = z - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t rest = day - (365 * year + year / 4 - year / 100), month = (5 * rest + 2) / 153;
    *d = (int)(rest - (153 * month + 2) / 5 + 1);
    *m = (int)(month < 10 ? month + 3 : month - 9);
    *y = year + era * 400 + (*m <= 2);
}

static bool digits(const char **p, const char *end, int count, int *value) {
    if (end - *p < count) return false;
    *value = 0;
    for (int i = 0; i < count; i++) {
        char c = *(*p)++;
        if (c < '0' || c > '9') return false;
        *value = *value * 10 + (c - '0');
    }
    return true;
}

static bool skip(const char **p, const char *end, char c) {
    if (*p >= end || **p != c) return false;
    (*p)++;
    return true;
}

// "2024-05-01", "2024-05-01T10:20:30.125Z", "2024-05-01 10:20+02:00". Seconds since 1970; an integer without a fraction.
static int time_parse(lua_State *L) {
    static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    size_t length;
    const char *p = luaL_checklstring(L, 1, &length), *end = p + length;
    nj_charge(L, nj_of(L), 4 + length);
    int year, month, day, hour = 0, minute = 0, second = 0, zone = 0;
    double fraction = 0;
    bool has_fraction = false;
    if (!digits(&p, end, 4, &year) || !skip(&p, end, '-') || !digits(&p, end, 2, &month) || !skip(&p, end, '-')
        || !digits(&p, end, 2, &day) || month < 1 || month > 12 || day < 1 || day > month_days[month - 1]) goto bad;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (month == 2 && day == 29 && !leap) goto bad;
    if (p < end && (*p == 'T' || *p == 't' || *p == ' ')) {
        p++;
        if (!digits(&p, end, 2, &hour) || !skip(&p, end, ':') || !digits(&p, end, 2, &minute)) goto bad;
        if (skip(&p, end, ':')) {
            if (!digits(&p, end, 2, &second)) goto bad;
            if (p < end && (*p == '.' || *p == ',')) {
                double scale = 0.1;
                has_fraction = true;
                p++;
                if (p >= end || *p < '0' || *p > '9') goto bad;
                for (; p < end && *p >= '0' && *p <= '9'; p++, scale /= 10) fraction += (*p - '0') * scale;
            }
        }
        if (hour > 23 || minute > 59 || second > 60) goto bad;
        if (p < end && (*p == '+' || *p == '-')) {
            int sign = *p++ == '-' ? -1 : 1, hours, minutes = 0;
            if (!digits(&p, end, 2, &hours)) goto bad;
            if (p < end) {
                skip(&p, end, ':');
                if (!digits(&p, end, 2, &minutes)) goto bad;
            }
            if (hours > 23 || minutes > 59) goto bad;
            zone = sign * (hours * 3600 + minutes * 60);
        } else if (p < end) {
            if (*p != 'Z' && *p != 'z') goto bad;
            p++;
        }
    }
    if (p != end) goto bad;
    int64_t seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone;
    if (has_fraction) lua_pushnumber(L, (lua_Number)seconds + fraction);
    else lua_pushinteger(L, seconds);
    return 1;
bad:
    lua_pushnil(L);
    lua_pushliteral(L, "not an ISO 8601 time");
    return 2;
}

int nj_time_parse(lua_State *L) { return time_parse(L); }

// format(seconds): "2024-05-01T10:20:30Z", with milliseconds if the seconds have a fraction.
static int time_format(lua_State *L) {
    lua_Number seconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, seconds >= -62167219200.0 && seconds < 253402300800.0, 1, "years 0000 to 9999 only");
    int64_t whole = (int64_t)floor(seconds);
    int milliseconds = (int)floor((seconds - (lua_Number)whole) * 1000 + 0.0005);
    if (milliseconds > 999) milliseconds = 999;
    int64_t days = whole >= 0 ? whole / 86400 : -((-whole + 86399) / 86400), rest = whole - days * 86400, year;
    int month, day;
    civil_from_days(days, &year, &month, &day);
    char text[64];
    int n = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", (int)year, month, day, (int)(rest / 3600),
                     (int)(rest / 60 % 60), (int)(rest % 60));
    if (milliseconds > 0) n += snprintf(text + n, sizeof text - (size_t)n, ".%03d", milliseconds);
    text[n++] = 'Z';
    lua_pushlstring(L, text, (size_t)n);
    return 1;
}

// Adds the functions to the table on top.
void nj_open_text(lua_State *L, lua_CFunction now) {
    static const luaL_Reg functions[] = {{"glob", glob}, {"cidr", cidr}, {NULL, NULL}};
    static const luaL_Reg base64[] = {{"encode", base64_encode}, {"decode", base64_decode}, {NULL, NULL}};
    static const luaL_Reg times[] = {{"parse", time_parse}, {"format", time_format}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    luaL_newlib(L, base64);
    nj_make_layer(L);
    lua_setfield(L, -2, "base64");
    luaL_newlib(L, times);
    lua_pushcfunction(L, now);
    lua_setfield(L, -2, "now");
    nj_make_layer(L);
    lua_setfield(L, -2, "time");
}
