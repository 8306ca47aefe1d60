// Included once for each instruction set by search.c, which defines TARGET, NAME and NAME(masks), NAME(prefix_xor).

// Takes the next block in; gives the mask of strings that open directly inside the object, relative to *base.
TARGET static inline uint64_t NAME(block)(nj_search *s, const uint8_t *body, uint32_t length, uint32_t *base) {
    const uint8_t *p = body + s->at;
    uint8_t tail[64];
    uint32_t left = length - s->at;
    *base = s->at;
    if (__builtin_expect(left < 64, 0)) {
        memset(tail, ' ', 64);
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
        uint64_t rest = ~(uint64_t)0; // bits behind the last bracket
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
    return m.quote & inside & top;
}

TARGET static uint32_t NAME(search)(
    nj_search *s, const uint8_t *body, uint32_t length, const nj_wanted *wanted, uint32_t *mark, uint32_t *marks,
    nj_search *last) {
    nj_search search = *s;
    uint32_t value = 0, count = *marks;
    bool keeps = mark != NULL;
    while (!search.closed && value == 0 && search.at < length) {
        uint32_t base;
        if (keeps && count + 32 > NJ_MARKS) { // a block opens at most 32 strings
            keeps = false;
            *s = search;
        }
        uint64_t opens = NAME(block)(&search, body, length, &base);
        for (; opens != 0; opens &= opens - 1) {
            uint32_t quote = base + (uint32_t)__builtin_ctzll(opens);
            if (keeps) mark[count++] = quote;
            if (value == 0) value = nj_value_of(body, length, quote, wanted);
        }
    }
    if (keeps) *s = search;
    *marks = count;
    *last = search;
    return value;
}
