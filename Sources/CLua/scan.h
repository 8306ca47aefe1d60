// Skipping over JSON text without parsing it. Every function reads only [p, end) and returns NULL if the text ends too early. Brackets are counted,
// not matched: bodies were validated when they were stored, and for other bytes the answer may be meaningless but is never out of bounds.
#ifndef NJ_SCAN_H
#define NJ_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline const uint8_t *nj_space(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p;
}

// p: first byte after the opening quote. Returns the closing quote.
static inline const uint8_t *nj_string_end(const uint8_t *p, const uint8_t *end, bool *escaped) {
    for (;;) {
#ifdef __SSE2__
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
            __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
            unsigned mask = (unsigned)_mm_movemask_epi8(hit);
            if (mask != 0) {
                p += __builtin_ctz(mask);
                goto found;
            }
            p += 16;
        }
#endif
        while (p < end && *p != '"' && *p != '\\') p++;
        if (p >= end) return NULL;
#ifdef __SSE2__
    found:
#endif
        if (*p == '"') return p;
        *escaped = true;
        if (end - p < 2) return NULL;
        p += 2;
    }
}

// p: the opening bracket. Returns the byte after the closing one.
static inline const uint8_t *nj_container_end(const uint8_t *p, const uint8_t *end) {
    size_t depth = 0;
    bool escaped = false;
    while (p < end) {
#ifdef __SSE2__
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
            // '[' and ']' differ from '{' and '}' in one bit.
            __m128i low = _mm_or_si128(v, _mm_set1_epi8(0x20));
            __m128i hit = _mm_or_si128(
                _mm_or_si128(_mm_cmpeq_epi8(low, _mm_set1_epi8('{')), _mm_cmpeq_epi8(low, _mm_set1_epi8('}'))),
                _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
            unsigned mask = (unsigned)_mm_movemask_epi8(hit);
            const uint8_t *block = p;
            p += 16;
            while (mask != 0) {
                const uint8_t *at = block + __builtin_ctz(mask);
                mask &= mask - 1;
                if (*at == '"') {
                    at = nj_string_end(at + 1, end, &escaped);
                    if (at == NULL) return NULL;
                    p = at + 1;
                    // Still inside this block: ignore the bits inside the string and continue with the rest of the mask.
                    if (p - block < 16) mask &= ~0u << (p - block);
                    else mask = 0;
                    if (p - block < 16) p = block + 16;
                } else if ((*at | 0x20) == '{') {
                    depth++;
                } else if (--depth == 0) {
                    return at + 1;
                }
            }
        }
#endif
        if (p >= end) return NULL;
        uint8_t c = *p;
        if (c == '"') {
            p = nj_string_end(p + 1, end, &escaped);
            if (p == NULL) return NULL;
        } else if ((c | 0x20) == '{') {
            depth++;
        } else if ((c | 0x20) == '}' && --depth == 0) {
            return p + 1;
        }
        p++;
    }
    return NULL;
}

// p: first byte of a value. Returns the byte after it.
static inline const uint8_t *nj_value_end(const uint8_t *p, const uint8_t *end) {
    if (p >= end) return NULL;
    if (*p == '"') {
        bool escaped = false;
        p = nj_string_end(p + 1, end, &escaped);
        return p == NULL ? NULL : p + 1;
    }
    if ((*p | 0x20) == '{') return nj_container_end(p, end);
    const uint8_t *start = p;
    while (p < end && *p != ',' && *p != '}' && *p != ']' && *p > ' ') p++;
    return p == start ? NULL : p;
}

// One step through the members of an object or the elements of an array.
// p: after the opening bracket (first) or after a value. Returns the next key or element, or NULL; *closed distinguishes the end from malformed text.
static inline const uint8_t *nj_step(const uint8_t *p, const uint8_t *end, bool first, bool *closed) {
    *closed = false;
    p = nj_space(p, end);
    if (p >= end) return NULL;
    if ((*p | 0x20) == '}') {
        *closed = true;
        return NULL;
    }
    if (first) return p;
    if (*p != ',') return NULL;
    p = nj_space(p + 1, end);
    return p < end ? p : NULL;
}

// p: the opening quote of a key. Sets the key's raw bytes and returns its value.
static inline const uint8_t *nj_key_at(
    const uint8_t *p, const uint8_t *end, const uint8_t **key, uint32_t *length, bool *escaped) {
    *escaped = false;
    if (p >= end || *p != '"') return NULL;
    *key = p + 1;
    const uint8_t *close = nj_string_end(p + 1, end, escaped);
    if (close == NULL) return NULL;
    *length = (uint32_t)(close - (p + 1));
    p = nj_space(close + 1, end);
    if (p >= end || *p != ':') return NULL;
    p = nj_space(p + 1, end);
    return p < end ? p : NULL;
}

#endif
