// An index over the members of a large object, built when a call has searched it repeatedly: with it, iterating over one document and looking up each
// name in another takes time proportional to their size. It is dropped at the end of the call.
#include "internal.h"

#include <stdlib.h>

// MARK: Keys

bool nj_escaped_equals(const uint8_t *raw, const uint8_t *raw_end, const char *key, size_t length) {
    size_t i = 0;
    while (raw < raw_end) {
        uint8_t piece[4];
        int n = 1;
        if (*raw == '\\') {
            n = nj_unescape(&raw, raw_end, piece);
            if (n <= 0) return false;
        } else {
            piece[0] = *raw++;
        }
        if (length - i < (size_t)n || memcmp(key + i, piece, (size_t)n) != 0) return false;
        i += (size_t)n;
    }
    return i == length;
}

typedef struct {
    const uint8_t *p, *end;
    uint8_t piece[4];
    int at, count;
} key_reader;

// The next decoded byte; -1 at the end, -2 for a bad escape.
static int next_byte(key_reader *r) {
    if (r->at < r->count) return r->piece[r->at++];
    if (r->p >= r->end) return -1;
    if (*r->p != '\\') return *r->p++;
    r->count = nj_unescape(&r->p, r->end, r->piece);
    r->at = 1;
    return r->count > 0 ? r->piece[0] : -2;
}

static bool both_equal(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end) {
    key_reader x = {.p = a, .end = a_end}, y = {.p = b, .end = b_end};
    for (;;) {
        int c = next_byte(&x);
        if (c != next_byte(&y) || c == -2) return false;
        if (c == -1) return true;
    }
}

static inline uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

// Different in each process, so that nobody can write documents whose keys collide.
static inline uint64_t seed_of(const nj_state *S) { return mix((uint64_t)(uintptr_t)S, (uint64_t)(uintptr_t)S->L); }

static uint32_t hash_key(const nj_state *S, const uint8_t *p, size_t length) {
    uint64_t hash = seed_of(S), word;
    for (; length >= 8; length -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = mix(hash, word);
    }
    word = (uint64_t)length << 56;
    for (size_t i = 0; i < length; i++) word |= (uint64_t)p[i] << (8 * i);
    hash = mix(hash, word);
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

// The same for a key with escapes, over its decoded form; false for a malformed escape.
static bool hash_escaped(const nj_state *S, const uint8_t *p, size_t length, uint32_t *result) {
    key_reader reader = {.p = p, .end = p + length};
    uint64_t hash = seed_of(S), word = 0;
    unsigned count = 0;
    int c;
    while ((c = next_byte(&reader)) >= 0) {
        word |= (uint64_t)c << (8 * count);
        if (++count < 8) continue;
        hash = mix(hash, word);
        word = 0;
        count = 0;
    }
    if (c != -1) return false;
    hash = mix(hash, word | (uint64_t)count << 56);
    *result = (uint32_t)(hash >> 32) ^ (uint32_t)hash;
    return true;
}

// MARK: Slots

static const uint8_t *key_end(const uint8_t *key, const uint8_t *end) {
    bool escaped;
    const uint8_t *close = nj_string_end(key, end, &escaped);
    return close == NULL ? end : close; // it was read before, so there is one
}

static inline bool plain_equals(const uint8_t *key, const uint8_t *end, const void *wanted, size_t length) {
    return (size_t)(end - key) > length && key[length] == '"' && memcmp(key, wanted, length) == 0
        && memchr(wanted, '"', length) == NULL; // else it would be the text of more than a key
}

// Probes are charged to the budget: equal hashes can be constructed on purpose.
static nj_member *look_up(
    const nj_members *m, const uint8_t *body, uint32_t length, uint32_t hash, const char *key, size_t key_length, size_t *probes) {
    const uint8_t *end = body + length;
    for (uint32_t i = hash;; i++) {
        nj_member *slot = &m->slots[i & (m->capacity - 1)];
        if (slot->key == 0) return NULL;
        ++*probes;
        if (slot->hash != hash) continue;
        *probes += key_length >> 4;
        const uint8_t *raw = body + (slot->key & ~NJ_MEMBER_ESCAPED);
        if ((slot->key & NJ_MEMBER_ESCAPED) == 0) {
            if (plain_equals(raw, end, key, key_length)) return slot;
        } else if (nj_escaped_equals(raw, key_end(raw, end), key, key_length)) {
            return slot;
        }
    }
}

// Doubles the capacity; false if the call has no memory for it.
static bool grow(nj_state *S, nj_members *m) {
    uint32_t capacity = m->capacity == 0 ? 64 : m->capacity * 2;
    size_t bytes = capacity * sizeof(nj_member), memory = (size_t)S->limits.memory;
    if (S->member_bytes + bytes > memory / NJ_MEMBER_MEMORY_PART || S->used + bytes > memory) return false;
    nj_member *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = 0; i < m->capacity; i++) {
        if (m->slots[i].key == 0) continue;
        uint32_t at = m->slots[i].hash;
        while (slots[at & (capacity - 1)].key != 0) at++;
        slots[at & (capacity - 1)] = m->slots[i];
    }
    size_t before = m->capacity * sizeof(nj_member);
    free(m->slots);
    m->slots = slots;
    m->capacity = capacity;
    S->member_bytes += bytes - before;
    S->used += bytes - before;
    if (S->used > S->peak) S->peak = S->used;
    return true;
}

// Of members with the same name, the search returns the first one that is written without escapes, and so does the index.
static bool add(
    nj_state *S, nj_members *m, const uint8_t *body, uint32_t length, const uint8_t *raw, uint32_t raw_length, bool escaped,
    uint32_t value, size_t *probes) {
    if (m->count * 4 >= m->capacity * 3) {
        if (!grow(S, m)) return false;
        *probes += m->capacity >> 3;
    }
    uint32_t hash, key = (uint32_t)(raw - body) | (escaped ? NJ_MEMBER_ESCAPED : 0);
    if (!escaped) hash = hash_key(S, raw, raw_length);
    else if (!hash_escaped(S, raw, raw_length, &hash)) return true; // no text equals it
    const uint8_t *end = body + length;
    for (uint32_t i = hash;; i++) {
        nj_member *slot = &m->slots[i & (m->capacity - 1)];
        if (slot->key == 0) {
            *slot = (nj_member){hash, key, value};
            m->count++;
            return true;
        }
        ++*probes;
        if (slot->hash != hash) continue;
        *probes += raw_length >> 4;
        const uint8_t *other = body + (slot->key & ~NJ_MEMBER_ESCAPED);
        bool was_escaped = (slot->key & NJ_MEMBER_ESCAPED) != 0;
        bool equal = escaped || was_escaped ? both_equal(other, key_end(other, end), raw, raw + raw_length)
                                            : plain_equals(other, end, raw, raw_length);
        if (!equal) continue;
        if (was_escaped && !escaped) *slot = (nj_member){hash, key, value};
        return true;
    }
}

// MARK: Objects

static void forget(nj_state *S, nj_members *m) {
    free(m->slots);
    S->member_bytes -= m->capacity * sizeof(nj_member);
    S->used -= m->capacity * sizeof(nj_member);
    *m = (nj_members){.handle = 0};
}

void nj_drop_members(nj_state *S) {
    for (int i = 0; i < S->member_objects; i++) forget(S, &S->members[i]);
    S->member_objects = 0;
    S->member_uses = 0;
}

static nj_members *members_of(nj_state *S, uint64_t handle) {
    for (int i = 0; i < S->member_objects; i++) {
        if (S->members[i].handle == handle) return &S->members[i];
    }
    return NULL;
}

void nj_note_search(nj_state *S, uint64_t handle, uint32_t scanned, uint32_t span) {
    nj_members *m = members_of(S, handle);
    if (m == NULL) {
        if (S->member_objects < NJ_MEMBER_INDEXES) {
            m = &S->members[S->member_objects++];
        } else { // displaces the one not used for the longest time
            m = &S->members[0];
            for (int i = 1; i < NJ_MEMBER_INDEXES; i++) {
                if (S->members[i].last_use < m->last_use) m = &S->members[i];
            }
            forget(S, m);
        }
        *m = (nj_members){.handle = handle};
    }
    m->last_use = ++S->member_uses;
    m->scanned += scanned;
    if (span > m->span) m->span = span;
    if (m->scanned >= NJ_MEMBER_RESCANNED && m->scanned / NJ_MEMBER_RESCANS >= m->span) m->is_indexed = !m->is_given_up;
}

static bool give_up(nj_state *S, nj_members *m) {
    uint64_t handle = m->handle;
    forget(S, m);
    *m = (nj_members){.handle = handle, .last_use = ++S->member_uses, .is_given_up = true};
    return false;
}

bool nj_find_indexed(
    lua_State *L, nj_state *S, uint64_t handle, const uint8_t *body, uint32_t length, uint32_t object, const char *key,
    size_t key_length, uint32_t *value) {
    nj_members *m = members_of(S, handle);
    if (m == NULL || !m->is_indexed) return false;
    m->last_use = ++S->member_uses;
    uint32_t hash = hash_key(S, (const uint8_t *)key, key_length);
    size_t probes = 1 + (key_length >> 4);
    nj_member *found = m->capacity == 0 ? NULL : look_up(m, body, length, hash, key, key_length, &probes);
    nj_charge(L, S, probes);
    const uint8_t *end = body + length;
    bool goes_on = !m->is_complete && (found == NULL || (found->key & NJ_MEMBER_ESCAPED) != 0);
    while (goes_on) {
        bool first = m->last_value == 0, closed, escaped;
        const uint8_t *start = body + (first ? object : m->last_value), *raw;
        const uint8_t *p = first ? start + 1 : nj_value_end(start, end);
        if (p == NULL) return give_up(S, m);
        probes = 1;
        p = nj_step(p, end, first, &closed);
        if (p == NULL) {
            if (!closed) return give_up(S, m);
            m->is_complete = true;
            found = m->capacity == 0 ? NULL : look_up(m, body, length, hash, key, key_length, &probes);
            nj_charge(L, S, probes);
            break;
        }
        uint32_t raw_length;
        p = nj_key_at(p, end, &raw, &raw_length, &escaped);
        if (p == NULL || !add(S, m, body, length, raw, raw_length, escaped, (uint32_t)(p - body), &probes)) return give_up(S, m);
        m->last_value = (uint32_t)(p - body);
        nj_charge(L, S, probes + ((size_t)(p - start) >> 4)); // may raise: the index is whole up to here
        if (!escaped && raw_length == key_length && memcmp(raw, key, key_length) == 0) {
            *value = m->last_value;
            return true;
        }
    }
    *value = found == NULL ? 0 : found->value;
    return true;
}
