// Finding a member of an object 64 bytes at a time.
//
// Each block becomes bit masks of its quotes, backslashes and brackets; from the quotes follows which bytes lie inside
// strings, from the brackets outside strings the depth, and so the places where a string opens directly inside the
// object. Only those are compared with the key; one that is followed by ':' is a key. Nothing is walked token by token.
#ifndef NJ_SEARCH_H
#define NJ_SEARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "scan.h"

enum { NJ_MARKS = 192 };

// How far a search has come; it goes on from a block's end.
typedef struct {
    uint32_t at;         // next block
    uint32_t depth;
    uint64_t in_string;  // all ones when the last block ended inside a string
    uint64_t escape;     // 1 when it ended in an open backslash
    bool closed;         // the object's end has been seen
    bool has_escapes;    // a backslash in a string directly inside the object: keys may be written with escapes
} nj_search;

typedef struct {
    uint64_t quote, backslash, bracket;
} nj_masks;

static inline nj_masks nj_block_masks(const uint8_t *p) {
    nj_masks m = {0, 0, 0};
#ifdef __SSE2__
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        __m128i low = _mm_or_si128(v, _mm_set1_epi8(0x20));
        __m128i brackets = _mm_or_si128(_mm_cmpeq_epi8(low, _mm_set1_epi8('{')), _mm_cmpeq_epi8(low, _mm_set1_epi8('}')));
        m.quote |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('"'))) << (16 * i);
        m.backslash |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))) << (16 * i);
        m.bracket |= (uint64_t)(uint32_t)_mm_movemask_epi8(brackets) << (16 * i);
    }
#else
    for (int i = 0; i < 64; i++) {
        uint8_t c = p[i], low = c | 0x20;
        m.quote |= (uint64_t)(c == '"') << i;
        m.backslash |= (uint64_t)(c == '\\') << i;
        m.bracket |= (uint64_t)(low == '{' || low == '}') << i;
    }
#endif
    return m;
}

// Bits that a run of backslashes before them escapes.
static inline uint64_t nj_escaped(uint64_t backslash, uint64_t *carry) {
    const uint64_t even = 0x5555555555555555u;
    backslash &= ~*carry;
    uint64_t follows = backslash << 1 | *carry;
    uint64_t odd_starts = backslash & ~even & ~follows, sequences;
    *carry = __builtin_add_overflow(odd_starts, backslash, &sequences);
    return (even ^ (sequences << 1)) & follows;
}

static inline uint64_t nj_prefix_xor(uint64_t x) {
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

// Takes the next block in; gives the mask of strings that open directly inside the object, relative to *base.
static inline uint64_t nj_search_block(nj_search *s, const uint8_t *body, uint32_t length, uint32_t *base) {
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
    nj_masks m = nj_block_masks(p);
    if (__builtin_expect((m.backslash | s->escape) != 0, 0)) m.quote &= ~nj_escaped(m.backslash, &s->escape);
    uint64_t inside = nj_prefix_xor(m.quote) ^ s->in_string;
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

// A key prepared for comparing eight bytes at once.
typedef struct {
    const char *bytes;
    size_t length;
    uint64_t word, mask; // the first bytes with the closing quote, where they fit
} nj_wanted;

static inline nj_wanted nj_want(const char *bytes, size_t length) {
    nj_wanted w = {bytes, length, 0, ~(uint64_t)0};
    uint8_t first[8] = {0};
    if (length < 8) {
        for (size_t i = 0; i < length; i++) first[i] = (uint8_t)bytes[i];
        first[length] = '"';
        if (length < 7) w.mask = ((uint64_t)1 << (8 * (length + 1))) - 1;
    } else {
        memcpy(first, bytes, 8);
    }
    memcpy(&w.word, first, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w.mask = length < 7 ? ~(uint64_t)0 << (8 * (7 - length)) : ~(uint64_t)0;
#endif
    return w;
}

// Does the string that opens at `quote` equal the key, and is it a key? Then gives its value's offset, else 0.
static inline uint32_t nj_value_of(const uint8_t *body, uint32_t length, uint32_t quote, const nj_wanted *w) {
    const uint8_t *p = body + quote + 1, *end = body + length;
    if (__builtin_expect(end - p >= 8, 1)) {
        uint64_t word;
        memcpy(&word, p, 8);
        if (((word ^ w->word) & w->mask) != 0) return 0;
    }
    if ((size_t)(end - p) <= w->length || p[w->length] != '"' || memcmp(p, w->bytes, w->length) != 0) return 0;
    p = nj_space(p + w->length + 1, end);
    if (p >= end || *p != ':') return 0;
    p = nj_space(p + 1, end);
    return p < end ? (uint32_t)(p - body) : 0;
}

#endif
