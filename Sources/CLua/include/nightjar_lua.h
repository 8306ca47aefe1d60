// Sandboxed Lua states behind a C interface that Swift can call: no Lua error and no longjmp ever leaves it, and none ever crosses a callback into
// Swift. A state may be used by only one thread at a time.
#ifndef NIGHTJAR_LUA_H
#define NIGHTJAR_LUA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nj_state nj_state;
typedef struct nj_reply nj_reply;

typedef struct {
    const void *bytes; // NULL: absent
    size_t length;
} nj_bytes;

typedef struct {
    int64_t memory;
    int64_t block;
    int64_t source;
    int32_t result_depth;
    int32_t result_nodes;
    int64_t result_bytes;
    int32_t log_line;
    int32_t log_fields;
    int32_t log_lines;
    int32_t lookups;
} nj_limits;

typedef struct {
    int64_t cpu_nanoseconds;
    int64_t instructions;
} nj_budget;

typedef struct {
    nj_bytes id, revision, body; // id absent: requested when it is read (NJ_HOST_NAMES)
    uint32_t flags;              // ctx.flags of a filter: 1 deleted, 2 access removed
    bool is_deleted;
    bool is_present;
} nj_document;

enum {
    NJ_HOOKS = 12, NJ_HOOK_RESOLVE = 2, NJ_HOOK_PASSWORD = 3, NJ_HOOK_CERTIFICATE = 4, NJ_HOOK_SYNC = 5, NJ_HOOK_TRANSFORM = 6, NJ_HOOK_TOKEN = 7,
    NJ_HOOK_SESSION = 8, NJ_HOOK_STATUS = 9, NJ_HOOK_DOCUMENTS = 10, NJ_HOOK_SELECT = 11
};
enum { NJ_MOST_KEYS = 8192 };       // of a table, outside its sequence
enum { NJ_DEEPEST_RESULT = 128 }; // conversions recurse in C
enum { NJ_MAX_LOOKUPS = 56 }; // of 64 document slots in a handle; the rest are the call's own

// Failure kinds, in the order of LuaFailureKind.
enum { NJ_OK = 0, NJ_ERROR, NJ_TIMEOUT, NJ_MEMORY, NJ_RESULT, NJ_LOAD };

// Host operations with their arguments and the contents of the reply.
enum {
    NJ_HOST_LOG = 0,     // integer: level; message, fields (JSON or absent)
    NJ_HOST_LOG_DROPPED, // integer: lines
    NJ_HOST_UUID,        // -> part 0: text
    NJ_HOST_NOW,         // -> number
    NJ_HOST_SHA1,        // bytes -> part 0: digest
    NJ_HOST_SHA256,      // bytes -> part 0: digest
    NJ_HOST_HMAC_SHA256, // key, bytes -> part 0: digest
    NJ_HOST_PASSWORD_HASH,   // password -> part 0: text
    NJ_HOST_PASSWORD_VERIFY, // password, hash -> integer: 0, 1
    NJ_HOST_GET,         // collection (or absent), id -> part 0: body, part 1: revision; integer: deleted
    NJ_HOST_METRIC,      // integer: kind; number: value; name, labels (JSON or absent)
    NJ_HOST_STATE_READ,  // key -> part 0: JSON
    NJ_HOST_STATE_WRITE, // key, JSON (or absent)
    NJ_HOST_MODULE,      // name -> part 0: source, part 1: chunk name
    NJ_HOST_NAMES        // integer: index in the filter's documents -> part 0: id, part 1: revision
};
enum { NJ_HOST_OK = 0, NJ_HOST_REFUSED, NJ_HOST_ABSENT }; // refused: part 0 is the reason

typedef struct {
    int32_t operation;
    int64_t integer;
    double number;
    nj_bytes first, second;
} nj_request;

// Must return normally, and must not call the state.
typedef int32_t (*nj_host_function)(void *context, const nj_request *request, nj_reply *reply);

// Copies the bytes. Returns false if memory is short.
bool nj_reply_set(nj_reply *reply, int32_t part, const void *bytes, size_t length);
void nj_reply_set_numbers(nj_reply *reply, int64_t integer, double number);

// Returns NULL if memory is short.
nj_state *nj_open(const nj_limits *limits, nj_host_function host, void *context);
void nj_close(nj_state *S);

// All functions below return NJ_OK or a failure kind; nj_message returns its text until the next call.
nj_bytes nj_message(const nj_state *S);
// The output of the last call that produces any: a merged document, a principal, a list of names (JSON).
nj_bytes nj_output(const nj_state *S);

int nj_load(nj_state *S, nj_bytes chunk_name, nj_bytes source, const nj_budget *budget);
uint32_t nj_hook_mask(const nj_state *S);
// Call after nj_load; absent if the plugin does not declare it. Writes to nj_output.
int nj_declaration(nj_state *S, const char *key);

// Call after nj_load. Compiles a source without running it, and records the global variables that it assigns and, if `reads`, those that it reads.
int nj_note_globals(nj_state *S, nj_bytes chunk_name, nj_bytes source, bool reads, const nj_budget *budget);
// Call afterwards. NJ_LOAD if a variable is read that the environment does not contain and no recorded source assigns.
int nj_check_globals(nj_state *S, const nj_budget *budget);

// context: JSON object. The reference is at least 0.
int nj_make_use(nj_state *S, nj_bytes context, int32_t *reference);
void nj_release_use(nj_state *S, int32_t reference);

// Calls the filter for the documents one after another, each with the full budget. Returns the answers (1: passed) for the first *answered; a failure
// concerns the document after them. Fewer than count without a failure: the last one took long, continue after it.
int nj_call_filters(
    nj_state *S, int32_t hook, int32_t use, const nj_document *documents, size_t count, const nj_budget *budget,
    uint8_t *passed, size_t *answered);

enum { NJ_LOCAL = 0, NJ_REMOTE, NJ_DELETE, NJ_MERGED };
typedef struct {
    nj_document local, remote, base;
    nj_bytes id, local_revision, remote_revision, base_revision;
    nj_bytes local_version, remote_version; // absent if a side has none
} nj_conflict;
int nj_call_resolve(
    nj_state *S, int32_t use, const nj_conflict *conflict, const nj_budget *budget, int32_t *decision);

enum { NJ_REFUSED = 0, NJ_ACCEPTED, NJ_PRINCIPAL };
int nj_call_password(
    nj_state *S, int32_t use, nj_bytes username, nj_bytes password, const nj_budget *budget, int32_t *verdict);

// chain: a JSON array of certificates, the peer's own first.
int nj_call_certificate(nj_state *S, int32_t use, nj_bytes chain, const nj_budget *budget, int32_t *verdict);

// caller: a JSON object {name, roles, channels, is_admin}; old: absent if there is no live revision.
// Accepted: nj_output is {"access":{user:[channel]},"channels":[…],"expiry":seconds,"roles":{user:[role]}}; rejected: the reason.
enum { NJ_SYNC_ACCEPTED = 0, NJ_SYNC_REJECTED };
enum { NJ_MAX_SYNC_ENTRIES = 1000, NJ_MAX_SYNC_NAME = 250, NJ_MAX_SYNC_REASON = 500 };
int nj_call_sync(
    nj_state *S, int32_t use, const nj_document *document, const nj_document *old, nj_bytes caller, const nj_budget *budget,
    int32_t *verdict);

// Changed: nj_output is the document to send or store.
enum { NJ_SAME = 0, NJ_CHANGED };
int nj_call_transform(nj_state *S, int32_t use, const nj_document *document, const nj_budget *budget, int32_t *decision);

// nj_output is a JSON string, or an object with token and optionally expires_in (seconds).
int nj_call_token(nj_state *S, int32_t use, const nj_budget *budget);

// nj_output is an object with session_id and optionally cookie_name and expires (seconds since 1970).
int nj_call_session(nj_state *S, int32_t use, const nj_budget *budget);

// hook: on_status or on_documents; news: JSON.
int nj_call_observer(nj_state *S, int32_t hook, int32_t use, nj_bytes news, const nj_budget *budget);

enum { NJ_WAITS = 0, NJ_CHOSEN };
// peers: JSON. NJ_CHOSEN: nj_output contains the name as JSON text.
int nj_call_select(nj_state *S, int32_t use, nj_bytes peers, const nj_budget *budget, int32_t *decision);

// Plugin tests. nj_load_tests writes a JSON object to nj_output whose keys are the names.
int nj_load_tests(nj_state *S, nj_bytes chunk_name, nj_bytes source, const nj_budget *budget);
int nj_run_test(nj_state *S, nj_bytes name, nj_bytes context, const nj_budget *budget);
// After a test that failed in t.equal: JSON {"got": …, "expected": …}, with a nil side absent; otherwise empty.
nj_bytes nj_difference(const nj_state *S);

size_t nj_memory(const nj_state *S);
size_t nj_peak_memory(const nj_state *S);
// Collects garbage first if much is held.
bool nj_needs_rebuild(nj_state *S);
int64_t nj_last_instructions(const nj_state *S);

// For measurements: a protected call of an empty Lua function, and of an empty C function, in this state.
void nj_measure_empty_call(nj_state *S, int64_t times, bool is_lua);
// For measurements: removes the memory and time limits of this state.
void nj_measure_without_limits(nj_state *S);

#endif
