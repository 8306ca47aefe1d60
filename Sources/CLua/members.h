// Members of large objects by name: counts repeated searches, and builds an index when they become too expensive.
#ifndef NJ_MEMBERS_H
#define NJ_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct nj_state;
struct lua_State;

enum {
    NJ_MEMBER_INDEXES = 16,        // objects tracked at a time: three documents of a conflict, five levels deep
    NJ_MEMBER_SPAN = 512,          // bytes: a search that ends within them is as fast as an index
    NJ_MEMBER_RESCANNED = 16384,   // bytes searched in one object before an index is considered
    NJ_MEMBER_RESCANS = 8,         // and how many times its longest search; reading token by token costs that much more per byte
    NJ_MEMBER_MEMORY_PART = 8,     // all indexes of a call together take at most this part of the memory limit
};

typedef struct {
    uint32_t hash;
    uint32_t key;   // offset of the key's first byte, and NJ_MEMBER_ESCAPED; 0: an empty slot
    uint32_t value; // offset
} nj_member;
#define NJ_MEMBER_ESCAPED ((uint32_t)1 << 31)

// One object. It is read once, only as far as the requested keys require.
typedef struct {
    uint64_t handle;
    uint64_t scanned;   // bytes searched in it
    uint32_t span;      // the longest search
    uint32_t last_use;
    uint32_t last_value; // of the last member in the index; 0: none
    uint32_t count, capacity;
    nj_member *slots;
    bool is_indexed;
    bool is_complete;
    bool is_given_up;   // memory is short, or the text is malformed
} nj_members;

bool nj_escaped_equals(const uint8_t *raw, const uint8_t *raw_end, const char *key, size_t length);

// Does a raw key equal a decoded one?
static inline bool nj_key_equals(const uint8_t *raw, uint32_t length, bool escaped, const char *key, size_t key_length) {
    if (!escaped) return length == key_length && memcmp(raw, key, key_length) == 0;
    return nj_escaped_equals(raw, raw + length, key, key_length);
}

// A search in this object has examined `scanned` bytes and ended `span` bytes after its start.
void nj_note_search(struct nj_state *S, uint64_t handle, uint32_t scanned, uint32_t span);
// Looks up the index of the object at `object`; false if there is none. *value: 0 if there is no such member.
bool nj_find_indexed(
    struct lua_State *L, struct nj_state *S, uint64_t handle, const uint8_t *body, uint32_t length, uint32_t object, const char *key,
    size_t key_length, uint32_t *value);
void nj_drop_members(struct nj_state *S); // at the end of a call that has recorded some

#endif
