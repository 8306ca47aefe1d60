// A pattern has no alternation and no nesting of repeats, so its captures open and close in the order in which they are written: they can be checked
// when it is compiled, and a capture written by a failed attempt is always written again before it is read. Recursion happens only at a repeated
// item, so its depth is limited by their number.
#include "pattern.h"

size_t nj_pattern_size(const char *text, size_t length) {
    size_t sets = 0;
    for (size_t i = 0; i < length; i++) sets += text[i] == '[';
    return (length + 1) * sizeof(nj_item) + sets * 32;
}

static const uint8_t *class_set(nj_state *S, uint8_t letter) {
    const char *at = memchr(NJ_CLASS_LETTERS, letter | 0x20, sizeof NJ_CLASS_LETTERS - 1);
    if (at == NULL || (letter | 0x20) < 'a' || (letter & 0xC0) != 0x40) return NULL;
    return S->classes[2 * (at - NJ_CLASS_LETTERS) + ((letter & 0x20) == 0)];
}

static void set_add(uint8_t *set, unsigned c) { set[c >> 3] |= (uint8_t)(1 << (c & 7)); }
static bool set_has(const uint8_t *set, unsigned c) { return (set[c >> 3] >> (c & 7) & 1) != 0; }

// p: after the '['. Returns the byte after the ']'.
static const uint8_t *compile_set(lua_State *L, nj_state *S, uint8_t *set, const uint8_t *p, const uint8_t *end) {
    memset(set, 0, 32);
    bool complement = p < end && *p == '^';
    if (complement) p++;
    // Finds the closing bracket first: a ']' in first position, or after '%', is a literal.
    const uint8_t *close = p;
    do {
        if (close >= end) luaL_error(L, "malformed pattern (missing ']')");
        if (*close++ == '%') close++;
    } while (close < end && *close != ']');
    if (close >= end) luaL_error(L, "malformed pattern (missing ']')");
    while (p < close) {
        uint8_t c = *p++;
        if (c == '%') {
            const uint8_t *class = class_set(S, *p);
            if (class == NULL) set_add(set, *p);
            for (int i = 0; class != NULL && i < 32; i++) set[i] |= class[i];
            p++;
        } else if (close - p >= 2 && *p == '-') {
            for (unsigned i = c; i <= p[1]; i++) set_add(set, i);
            p += 2;
        } else {
            set_add(set, c);
        }
    }
    if (complement) {
        for (int i = 0; i < 32; i++) set[i] = (uint8_t)~set[i];
    }
    return close + 1;
}

void nj_pattern_compile(lua_State *L, nj_pattern *pattern, void *storage, const char *text, size_t length, bool with_anchor) {
    nj_state *S = nj_of(L);
    nj_charge(L, S, length);
    const uint8_t *p = (const uint8_t *)text, *end = p + length;
    nj_item *items = storage;
    uint8_t *sets = (uint8_t *)(items + length + 1);
    int count = 0, captures = 0, repeats = 0, open_count = 0;
    uint8_t open[NJ_MAX_CAPTURES];
    bool closed[NJ_MAX_CAPTURES] = {false};
    pattern->anchored = with_anchor && p < end && *p == '^';
    if (pattern->anchored) p++;
    bool ends_at_end = false;
    while (p < end) {
        nj_item item = {NULL, ITEM_BYTE, 0, 0, 0};
        uint8_t c = *p++;
        bool single = false; // may be repeated
        if (c == '(') {
            if (captures == NJ_MAX_CAPTURES) luaL_error(L, "too many captures");
            item.a = (uint8_t)captures++;
            if (p < end && *p == ')') {
                p++;
                item.kind = ITEM_PLACE;
                closed[item.a] = true;
            } else {
                item.kind = ITEM_OPEN;
                open[open_count++] = item.a;
            }
        } else if (c == ')') {
            if (open_count == 0) luaL_error(L, "invalid pattern capture");
            item.kind = ITEM_CLOSE;
            item.a = open[--open_count];
            closed[item.a] = true;
        } else if (c == '$' && p == end) {
            ends_at_end = true;
            break;
        } else if (c == '%') {
            if (p >= end) luaL_error(L, "malformed pattern (ends with '%%')");
            c = *p++;
            if (c == 'b') {
                if (end - p < 2) luaL_error(L, "malformed pattern (missing arguments to '%%b')");
                item.kind = ITEM_BALANCE;
                item.a = p[0];
                item.b = p[1];
                p += 2;
            } else if (c == 'f') {
                if (p >= end || *p != '[') luaL_error(L, "missing '[' after '%%f' in pattern");
                item.kind = ITEM_FRONTIER;
                item.set = sets;
                p = compile_set(L, S, sets, p + 1, end);
                sets += 32;
            } else if (c >= '0' && c <= '9') {
                if (c == '0' || c - '1' >= captures || !closed[c - '1'])
                    luaL_error(L, "invalid capture index %%%d in pattern", c - '0');
                item.kind = ITEM_BACK;
                item.a = (uint8_t)(c - '1');
            } else {
                single = true;
                item.set = class_set(S, c);
                item.kind = item.set != NULL ? ITEM_SET : ITEM_BYTE;
                item.a = c;
            }
        } else if (c == '[') {
            single = true;
            item.kind = ITEM_SET;
            item.set = sets;
            p = compile_set(L, S, sets, p, end);
            sets += 32;
        } else {
            single = true;
            item.kind = c == '.' ? ITEM_ANY : ITEM_BYTE;
            item.a = c;
        }
        if (single && p < end && (*p == '*' || *p == '+' || *p == '-' || *p == '?')) {
            item.repeat = *p++;
            if (++repeats > NJ_MAX_REPEATS) luaL_error(L, "pattern too complex");
        }
        items[count++] = item;
    }
    if (open_count > 0) luaL_error(L, "unfinished capture");
    items[count] = (nj_item){NULL, ITEM_END, ends_at_end, 0, 0};
    pattern->items = count;
    pattern->captures = captures;
    pattern->item = items;
}

// MARK: Matching

static inline void step(nj_matcher *m) {
    if ((++m->steps & 255) == 0) nj_charge(m->L, m->S, 128);
}

static inline bool fits(const nj_item *item, uint8_t c) {
    return item->kind == ITEM_ANY || (item->kind == ITEM_BYTE ? item->a == c : set_has(item->set, c));
}

static const uint8_t *balance(nj_matcher *m, const nj_item *item, const uint8_t *s) {
    if (s >= m->end || *s != item->a) return NULL;
    size_t depth = 1;
    for (const uint8_t *p = s + 1; p < m->end; p++) {
        step(m);
        if (*p == item->b) {
            if (--depth == 0) return p + 1;
        } else if (*p == item->a) {
            depth++;
        }
    }
    return NULL;
}

static const uint8_t *match(nj_matcher *m, const nj_item *item, const uint8_t *s) {
    for (;; item++) {
        step(m);
        switch (item->repeat) {
        case '?':
            if (s < m->end && fits(item, *s)) {
                const uint8_t *end = match(m, item + 1, s + 1);
                if (end != NULL) return end;
            }
            continue;
        case '*':
        case '+': {
            ptrdiff_t n = 0, least = item->repeat == '+';
            while (n < m->end - s && fits(item, s[n])) {
                step(m);
                n++;
            }
            for (; n >= least; n--) {
                const uint8_t *end = match(m, item + 1, s + n);
                if (end != NULL) return end;
            }
            return NULL;
        }
        case '-':
            for (;;) {
                const uint8_t *end = match(m, item + 1, s);
                if (end != NULL) return end;
                if (s >= m->end || !fits(item, *s)) return NULL;
                s++;
            }
        default: break;
        }
        switch ((nj_item_kind)item->kind) {
        case ITEM_BYTE:
        case ITEM_ANY:
        case ITEM_SET:
            if (s >= m->end || !fits(item, *s)) return NULL;
            s++;
            break;
        case ITEM_OPEN: m->capture[item->a].start = s; break;
        case ITEM_PLACE: m->capture[item->a] = (nj_capture){s, -1}; break;
        case ITEM_CLOSE: m->capture[item->a].length = s - m->capture[item->a].start; break;
        case ITEM_BACK: {
            const nj_capture *c = &m->capture[item->a];
            if (c->length < 0 || m->end - s < c->length) return NULL;
            nj_charge(m->L, m->S, (size_t)c->length >> 4);
            if (memcmp(s, c->start, (size_t)c->length) != 0) return NULL;
            s += c->length;
            break;
        }
        case ITEM_BALANCE:
            s = balance(m, item, s);
            if (s == NULL) return NULL;
            break;
        case ITEM_FRONTIER: {
            uint8_t before = s == m->subject ? 0 : s[-1], after = s == m->end ? 0 : *s;
            if (set_has(item->set, before) || !set_has(item->set, after)) return NULL;
            break;
        }
        case ITEM_END: return item->repeat == 0 || s == m->end ? s : NULL;
        }
    }
}

const uint8_t *nj_match_at(nj_matcher *m, const uint8_t *s) { return match(m, m->pattern->item, s); }

void nj_push_capture(nj_matcher *m, int i, const uint8_t *from, const uint8_t *to) {
    if (i >= m->pattern->captures) {
        if (i != 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
        lua_pushlstring(m->L, (const char *)from, (size_t)(to - from));
        return;
    }
    const nj_capture *c = &m->capture[i];
    if (c->length < 0) lua_pushinteger(m->L, c->start - m->subject + 1);
    else lua_pushlstring(m->L, (const char *)c->start, (size_t)c->length);
}

int nj_push_captures(nj_matcher *m, const uint8_t *from, const uint8_t *to, bool whole_if_none) {
    int count = m->pattern->captures;
    if (count == 0 && whole_if_none) count = 1;
    luaL_checkstack(m->L, count, "too many captures");
    for (int i = 0; i < count; i++) nj_push_capture(m, i, from, to);
    return count;
}
