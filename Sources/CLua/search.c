// The block search for the current processor.
#include "search.h"

#include <stddef.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    uint64_t quote, backslash, bracket;
} nj_masks;

// Bits that are escaped by a run of backslashes before them.
static inline uint64_t nj_escaped(uint64_t backslash, uint64_t *carry) {
    const uint64_t even = 0x5555555555555555u;
    backslash &= ~*carry;
    uint64_t follows = backslash << 1 | *carry;
    uint64_t odd_starts = backslash & ~even & ~follows, sequences;
    *carry = __builtin_add_overflow(odd_starts, backslash, &sequences);
    return (even ^ (sequences << 1)) & follows;
}

#define TARGET
#define NAME(x) x##_baseline

static inline nj_masks NAME(masks)(const uint8_t *p) {
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

// Bits of the 64 bytes at p that equal c.
static inline uint64_t NAME(equal)(const uint8_t *p, uint8_t c) {
    uint64_t mask = 0;
#ifdef __SSE2__
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8((char)c))) << (16 * i);
    }
#else
    for (int i = 0; i < 64; i++) mask |= (uint64_t)(p[i] == c) << i;
#endif
    return mask;
}

static inline uint64_t NAME(prefix_xor)(uint64_t x) {
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

#include "search_body.h"

#undef TARGET
#undef NAME

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,pclmul,bmi")))
#define NAME(x) x##_avx2

TARGET static inline nj_masks NAME(masks)(const uint8_t *p) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
#define BOTH(compare_a, compare_b) \
    ((uint64_t)(uint32_t)_mm256_movemask_epi8(compare_a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(compare_b) << 32)
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'), bit = _mm256_set1_epi8(0x20),
                  open = _mm256_set1_epi8('{'), close = _mm256_set1_epi8('}');
    __m256i low_a = _mm256_or_si256(a, bit), low_b = _mm256_or_si256(b, bit);
    nj_masks m;
    m.quote = BOTH(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote));
    m.backslash = BOTH(_mm256_cmpeq_epi8(a, backslash), _mm256_cmpeq_epi8(b, backslash));
    m.bracket = BOTH(
        _mm256_or_si256(_mm256_cmpeq_epi8(low_a, open), _mm256_cmpeq_epi8(low_a, close)),
        _mm256_or_si256(_mm256_cmpeq_epi8(low_b, open), _mm256_cmpeq_epi8(low_b, close)));
#undef BOTH
    return m;
}

TARGET static inline uint64_t NAME(equal)(const uint8_t *p, uint8_t c) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    __m256i wanted = _mm256_set1_epi8((char)c);
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, wanted))
        | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, wanted)) << 32;
}

TARGET static inline uint64_t NAME(prefix_xor)(uint64_t x) {
    // A carry-less multiplication by all ones computes the running exclusive or of the bits.
    __m128i product = _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)x), _mm_set1_epi8((char)0xFF), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

#include "search_body.h"
#endif

nj_search_function nj_choose_search(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("bmi")) return search_avx2;
#endif
    return search_baseline;
}
