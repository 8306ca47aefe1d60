// Entering and leaving a state; every public function that runs Lua is based on these.
#ifndef NJ_CALLS_H
#define NJ_CALLS_H

#include "internal.h"

// The main thread's stack between calls: the message handler, the hooks in order, the ctx used last.
enum { NJ_BASE = 1 + NJ_HOOKS + 1 };

// False if a call is already in progress; the message says so.
bool nj_begin(nj_state *S, const nj_budget *budget);
// Returns NJ_OK or the failure kind; kind_of_error is the kind for an ordinary error.
int nj_end(nj_state *S, int status, int kind_of_error);
// Runs a C function protected, with the pointer as its argument. Allocates nothing itself.
int nj_protected(nj_state *S, lua_CFunction function, void *argument);
// Between two documents of one protected call: resets the budget, and invalidates the handles of the last one.
void nj_next_question(nj_state *S);
// NJ_OK, or a failure whose message is set: called from inside itself, no such hook, no such use.
int nj_check_call(nj_state *S, int hook, int use);
int nj_check_body(nj_state *S, const nj_document *d);
// The position shown for a result error: the line where the function on top begins; the function stays on the stack.
void nj_note_definition(lua_State *L, nj_state *S);
// Updates ctx.flags of a use: 1 deleted, 2 access removed.
void nj_set_flags(lua_State *L, nj_use *use, uint32_t flags);
// Runs a C function protected, with the hook as its upvalue 1 and the pointer as its argument, and ends the call.
int nj_call_hook(nj_state *S, int hook, lua_CFunction function, void *argument);

const char *nj_hook_name(int hook);
// Reads what a hook returned at `result`, of `results` values; raises a result error. May write to the output. local, remote: the handles of
// conflict.local_doc and remote_doc, 0 if that side is deleted.
int32_t nj_read_resolution(lua_State *L, nj_state *S, int result, int results, uint64_t local, uint64_t remote);
extern const char nj_returned_conflict[]; // why that is an error
int32_t nj_read_principal(lua_State *L, nj_state *S, int result, int results, const char *name);

// For the functions of `t` in plugin tests, whose upvalue 1 is the context.
void nj_push_test_context(lua_State *L, nj_state *S, int index, bool is_deleted);
void nj_push_test_hook(lua_State *L, nj_state *S, int hook);
// Pushes the hook and, as its first argument, the document of the handle. Returns whether the document is a deletion.
bool nj_push_test_call(lua_State *L, nj_state *S, int hook, uint64_t document);
uint64_t nj_make_test_document(lua_State *L, nj_state *S, int index, const char *what);
int nj_test_certificate(lua_State *L);
int nj_test_sync(lua_State *L);
int nj_test_transform(lua_State *L);
int nj_test_token(lua_State *L);
int nj_test_session(lua_State *L);
int nj_test_status(lua_State *L);
int nj_test_documents(lua_State *L);
int nj_test_select(lua_State *L);

#endif
