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

// Registry keys: the assignments so far, and the author of the write.
extern const char nj_key_assigned, nj_key_caller;

#endif
