// Finding a member of an object 64 bytes at a time.
//
// Each block becomes bit masks of its quotes, backslashes and brackets. The quotes determine which bytes are inside strings, and the brackets outside
// strings the depth; together, they give the positions where a string opens directly inside the object. Only those strings are compared with the key;
// one that is followed by ':' is a key. Nothing is parsed token by token.
#ifndef NJ_SEARCH_H
#define NJ_SEARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "scan.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are compared in memory order"
#endif

enum { NJ_BLOCKS = 64 }; // remembered: 4 KB of a body

// The progress of a search; it continues at the end of a block.
typedef struct {
    uint32_t at;         // next block
    uint32_t blocks;     // remembered so far
    uint32_t depth;
    uint64_t in_string;  // all ones when the last block ended inside a string
    uint64_t escape;     // 1 when it ended in an open backslash
    bool closed;         // the object's end has been seen
    bool has_escapes;    // a backslash in a string directly inside the object: keys may be written with escapes
} nj_search;

// Where a search stopped.
typedef struct {
    uint32_t at;
    bool closed, has_escapes;
} nj_found;

// A key prepared for comparing eight bytes at once.
typedef struct {
    const char *bytes;
    size_t length;
    uint64_t word, mask; // the first bytes with the closing quote, where they fit
} nj_wanted;

static inline nj_wanted nj_want(const char *bytes, size_t length) {
    nj_wanted w = {bytes, length, 0, ~(uint64_t)0};
    // Overlapping loads put the word together without a round trip through memory.
    if (length >= 8) {
        memcpy(&w.word, bytes, 8);
        return w;
    }
    if (length >= 4) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + length - 4, 4);
        w.word = low | (uint64_t)high << (8 * (length - 4));
    } else if (length >= 2) {
        uint16_t low, high;
        memcpy(&low, bytes, 2);
        memcpy(&high, bytes + length - 2, 2);
        w.word = low | (uint64_t)high << (8 * (length - 2));
    } else if (length == 1) {
        w.word = (uint8_t)bytes[0];
    }
    w.word |= (uint64_t)'"' << (8 * length);
    if (length < 7) w.mask = ((uint64_t)1 << (8 * (length + 1))) - 1;
    return w;
}

// Does the string that opens at `quote` equal the key, and is it a key? If so, returns its value's offset, else 0.
static inline uint32_t nj_value_of(const uint8_t *body, uint32_t length, uint32_t quote, const nj_wanted *w) {
    const uint8_t *p = body + quote + 1, *end = body + length;
    if (__builtin_expect(end - p >= 8, 1)) {
        uint64_t word;
        memcpy(&word, p, 8);
        if (((word ^ w->word) & w->mask) != 0) return 0;
        if (w->length < 8) goto equal; // the word held all of it and its closing quote
    }
    if ((size_t)(end - p) <= w->length || p[w->length] != '"' || memcmp(p, w->bytes, w->length) != 0) return 0;
equal:
    p = nj_space(p + w->length + 1, end);
    if (p >= end || *p != ':') return 0;
    p = nj_space(p + 1, end);
    return p < end ? (uint32_t)(p - body) : 0;
}

// Advances *s until the key is found or the object ends; returns its value's offset, or 0 (not found, or the text ends first: then found->closed is
// false). `opened` (NULL, or with NJ_BLOCKS entries) remembers, for each block from `start` on, where strings open directly inside the object, for
// the next key; once it is full, *s is not advanced further.
typedef uint32_t (*nj_search_function)(
    nj_search *s, const uint8_t *body, uint32_t length, const nj_wanted *wanted, uint32_t start, uint64_t *opened,
    nj_found *found);
nj_search_function nj_choose_search(void);

#endif
