// What the functions of sync (sync.c) and its call (sync_call.c) share.
#ifndef NJ_SYNC_H
#define NJ_SYNC_H

#include "calls.h"

struct nj_sync {
    bool rejected;
    int entries;
    size_t reason_length;
    char reason[NJ_MAX_SYNC_REASON];
};

// Registry keys: what was assigned so far, and who writes.
extern const char nj_key_assigned, nj_key_caller;

#endif
