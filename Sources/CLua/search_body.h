// Included once for each instruction set by search.c, which defines TARGET, NAME and NAME(masks), NAME(prefix_xor).

// Processes the next block; returns the mask of strings that open directly inside the object, relative to *base, and of those whose first byte is the
// key's.
TARGET static inline __attribute__((always_inline)) uint64_t NAME(block)(
    nj_search *s, const uint8_t *body, uint32_t length, uint8_t first, uint32_t *base, uint64_t *candidates) {
    const uint8_t *p = body + s->at;
    uint8_t tail[80];
    uint32_t left = length - s->at;
    *base = s->at;
    if (__builtin_expect(left <= 64, 0)) {
        memset(tail, ' ', sizeof tail);
        memcpy(tail, p, left);
        p = tail;
        s->at = length;
    } else {
        s->at += 64;
    }
    nj_masks m = NAME(masks)(p);
    if (__builtin_expect((m.backslash | s->escape) != 0, 0)) m.quote &= ~nj_escaped(m.backslash, &s->escape);
    uint64_t inside = NAME(prefix_xor)(m.quote) ^ s->in_string;
    s->in_string = (uint64_t)((int64_t)inside >> 63);
    m.bracket &= ~inside;
    uint64_t top;
    if (m.bracket == 0) {
        top = s->depth == 1 ? ~(uint64_t)0 : 0;
    } else {
        top = 0;
        uint64_t rest = ~(uint64_t)0; // bits after the last bracket
        for (uint64_t b = m.bracket; b != 0; b &= b - 1) {
            uint64_t bit = b & (0 - b);
            if (s->depth == 1) top |= rest & (bit - 1);
            if ((p[__builtin_ctzll(b)] | 0x20) == '{') {
                s->depth++;
            } else if (--s->depth == 0) {
                s->closed = true;
                rest = 0;
                break;
            }
            rest = ~(bit - 1) << 1;
            if (bit >> 63) rest = 0;
        }
        if (s->depth == 1) top |= rest;
    }
    if (__builtin_expect((m.backslash & inside & top) != 0, 0)) s->has_escapes = true;
    uint64_t opens = m.quote & inside & top;
    *candidates = opens & NAME(equal)(p + 1, first);
    return opens;
}

TARGET static uint32_t NAME(search)(
    nj_search *s, const uint8_t *body, uint32_t length, const nj_wanted *wanted, uint32_t start, uint64_t *opened,
    nj_found *found) {
    uint8_t first = (uint8_t)wanted->word;
    uint32_t known = s->blocks, value = 0;
    for (uint32_t k = 0; k < known; k++) {
        uint64_t candidates = opened[k];
        uint32_t base = start + 64 * k;
        if (candidates == 0) continue;
        if (length - base > 64) candidates &= NAME(equal)(body + base + 1, first);
        for (; candidates != 0; candidates &= candidates - 1) {
            value = nj_value_of(body, length, base + (uint32_t)__builtin_ctzll(candidates), wanted);
            if (value != 0) {
                found->at = s->at;
                found->closed = s->closed;
                found->has_escapes = s->has_escapes;
                return value;
            }
        }
    }
    // Field by field: a wide load of what was stored in pieces would have to wait for the stores.
    nj_search search;
    search.at = s->at;
    search.blocks = known;
    search.depth = s->depth;
    search.in_string = s->in_string;
    search.escape = s->escape;
    search.closed = s->closed;
    search.has_escapes = s->has_escapes;
    const bool keeps = opened != NULL;
    while (!search.closed && search.at < length) {
        uint32_t base;
        uint64_t candidates, opens = NAME(block)(&search, body, length, first, &base, &candidates);
        if (keeps && search.blocks < NJ_BLOCKS) {
            opened[search.blocks++] = opens;
            s->at = search.at;
            s->blocks = search.blocks;
            s->depth = search.depth;
            s->in_string = search.in_string;
            s->escape = search.escape;
            s->closed = search.closed;
            s->has_escapes = search.has_escapes;
        }
        for (; candidates != 0; candidates &= candidates - 1) {
            value = nj_value_of(body, length, base + (uint32_t)__builtin_ctzll(candidates), wanted);
            if (value != 0) goto done;
        }
    }
done:
    found->at = search.at;
    found->closed = search.closed;
    found->has_escapes = search.has_escapes;
    return value;
}
