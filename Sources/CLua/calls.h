// Entering and leaving a state; every public function that runs Lua is built on these.
#ifndef NJ_CALLS_H
#define NJ_CALLS_H

#include "internal.h"

// The main thread's stack between calls: the message handler, the hooks in their order, the ctx used last.
enum { NJ_BASE = 1 + NJ_HOOKS + 1 };

// False when a call is under way already; the message says so.
bool nj_begin(nj_state *S, const nj_budget *budget);
// Gives NJ_OK or the failure kind; kind_of_error is the kind of an ordinary error.
int nj_end(nj_state *S, int status, int kind_of_error);
// Runs a C function protected, with the pointer as its argument. Allocates nothing itself.
int nj_protected(nj_state *S, lua_CFunction function, void *argument);


const char *nj_hook_name(int hook);
// Reads what a hook gave at `result`, of `results` values; raises a result error. May write to the output.
// local, remote: the handles of conflict.local_doc and remote_doc, 0 where that side is deleted.
int32_t nj_read_resolution(lua_State *L, nj_state *S, int result, int results, uint64_t local, uint64_t remote);
int32_t nj_read_principal(lua_State *L, nj_state *S, int result, int results, const char *name);

#endif
