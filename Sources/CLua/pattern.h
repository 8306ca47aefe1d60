// Lua patterns, compiled into items and matched with a step budget.
#ifndef NJ_PATTERN_H
#define NJ_PATTERN_H

#include "internal.h"

enum { NJ_MAX_CAPTURES = 32, NJ_MAX_REPEATS = 200 };

typedef enum {
    ITEM_BYTE, ITEM_ANY, ITEM_SET, ITEM_OPEN, ITEM_PLACE, ITEM_CLOSE, ITEM_BACK, ITEM_BALANCE, ITEM_FRONTIER, ITEM_END
} nj_item_kind;

typedef struct {
    const uint8_t *set; // ITEM_SET, ITEM_FRONTIER
    uint8_t kind;
    uint8_t repeat;     // 0, '*', '+', '-', '?'
    uint8_t a, b;       // the byte; the pair of %b; the capture
} nj_item;

typedef struct {
    bool anchored;
    int items;
    int captures;
    nj_item *item; // ends with an item of kind ITEM_END and repeat 0, which always matches, or '$', repeat 1
} nj_pattern;

typedef struct {
    const uint8_t *start;
    ptrdiff_t length; // -1: a position capture
} nj_capture;

typedef struct {
    lua_State *L;
    nj_state *S;
    const nj_pattern *pattern;
    const uint8_t *subject, *end;
    unsigned steps;
    nj_capture capture[NJ_MAX_CAPTURES];
} nj_matcher;

// Bytes of storage that a pattern of this length may need.
size_t nj_pattern_size(const char *text, size_t length);
// Compiles into storage of that size; raises on a malformed pattern. with_anchor: '^' at the start anchors.
void nj_pattern_compile(lua_State *L, nj_pattern *pattern, void *storage, const char *text, size_t length, bool with_anchor);
// The end of a match that starts at s, or NULL.
const uint8_t *nj_match_at(nj_matcher *m, const uint8_t *s);
// Pushes capture i, or the whole match if there are no captures and i is 0.
void nj_push_capture(nj_matcher *m, int i, const uint8_t *from, const uint8_t *to);
int nj_push_captures(nj_matcher *m, const uint8_t *from, const uint8_t *to, bool whole_if_none);

#endif
