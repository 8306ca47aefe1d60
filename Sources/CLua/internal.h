// Shared declarations of this target's C files.
#ifndef NJ_INTERNAL_H
#define NJ_INTERNAL_H

#include "nightjar_lua.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <string.h>

#include "members.h"
#include "search.h"

// Document handles. A document, or an object or array inside one, is a light userdata whose value is
//   generation of the call (32 bits) | document slot (6) | offset of the value in the body (26)
// so handing one out allocates nothing, equal places are equal handles, and a handle that outlives its call is
// recognised by its generation. 0 is nightjar.null and 1 nightjar.delete (generation 0 is never used).
_Static_assert(sizeof(void *) == 8, "document handles need 64-bit pointers");
enum { NJ_OWN_DOCUMENTS = 3 }; // slots for the call's own documents; later ones hold copies, freed at its end
enum { NJ_OFFSET_BITS = 26, NJ_DOCUMENT_SLOTS = 64, NJ_MAX_BODY = (1 << NJ_OFFSET_BITS) - 1 };
#define NJ_HANDLE_NULL ((uint64_t)0)
#define NJ_HANDLE_DELETE ((uint64_t)1)

enum {
    NJ_HOOK_COUNT = 100,     // instructions between two checks of the clock
    NJ_TICK_NANOSECONDS = 2000000, // CPU time between two ticks of a thread's watch
    NJ_CURSORS = 16,         // arrays and objects whose last position is remembered
    NJ_MESSAGE_BYTES = 2048,
    NJ_DEEPEST = NJ_DEEPEST_RESULT // upper bound of any nesting limit
};

typedef struct {
    const uint8_t *body;
    uint32_t length;
    uint32_t root;    // offset of the opening brace
    bool is_deleted;
    nj_bytes id, revision;
    int32_t number;   // index in a filter's documents, if id is absent
    void *owned;      // freed at the end of the call
    nj_search search; // of the top level
    uint64_t opened[NJ_BLOCKS];
} nj_doc;

typedef struct {
    uint64_t handle;
    uint32_t index;   // arrays: 1-based index of the element at `offset`; objects: 1 when set
    uint32_t offset;  // arrays: the element; objects: the key (after its quote) last given by pairs
    int32_t length;   // arrays: -1 when unknown
} nj_cursor;

struct nj_reply {
    uint8_t *part[2];
    size_t length[2];
    int64_t integer;
    double number;
};

typedef struct {
    uint8_t *bytes;
    size_t length, capacity;
} nj_buffer;

typedef struct {
    int context;      // registry reference of ctx; LUA_NOREF when free
    int flags;        // registry reference of the table behind ctx.flags
    uint32_t last_flags;
} nj_use;

typedef struct {
    const char *bytes;
    size_t length;
} nj_key;

struct nj_state {
    lua_State *L;
    lua_State *running; // the thread or coroutine that is running

    // Memory
    size_t used, peak;
    bool refused;        // the allocator has refused a block in this call
    bool unlimited;      // measured without limits
    bool exhausted;      // a call failed for lack of memory: the state must be dropped

    // The call
    uint32_t generation;
    bool in_call;
    bool loading;   // load-time code is running: what it writes to the environment stays
    uint32_t layers_changed; // libraries that this call has written to, by number
    bool is_result; // an error raised now is about the hook's result
    int limit;      // NJ_OK, NJ_TIMEOUT or NJ_MEMORY: exhausted, for the rest of the call
    int64_t instructions;
    int64_t charged; // units not yet added to instructions
    int64_t wall_start, cpu_start;
    int hook_count;        // the count of the main thread's hook; 0: none is set
    uint32_t ticks;        // of the thread's watch in this call
    nj_state *watched_before; // the state whose call encloses this one; NULL: none
    nj_budget budget;
    int documents;
    int lookups;
    size_t kept_bytes; // bytes of bodies looked up
    int log_lines;
    nj_cursor cursors[NJ_CURSORS];
    nj_doc docs[NJ_DOCUMENT_SLOTS];
    int member_objects; // entries of `members` in use
    uint32_t member_uses;
    size_t member_bytes;
    nj_members members[NJ_MEMBER_INDEXES];
    uint32_t hook_mask;
    bool has_difference; // output holds {"got", "expected"} of a failed t.equal
    int tests; // registry reference of the loaded test cases
    int plugin_table;

    nj_use *uses;
    int use_count;
    int use_in_slot; // the use whose ctx is in the stack slot reserved for it; -1: none

    struct nj_sync *sync; // what the running sync call has decided so far; NULL outside of one

    nj_search_function search;
    nj_host_function host;
    void *host_context;
    nj_reply reply;

    nj_limits limits;
    nj_buffer output, scratch;
    nj_key *keys; // stack of keys being sorted
    size_t key_count, key_capacity;
    char where[160];   // "file.lua:3:" of the error or the exhausted limit
    char message[NJ_MESSAGE_BYTES];
    size_t message_length;
    uint8_t classes[22][32]; // pattern classes as bit sets: %a %A …
};

// The pattern classes' letters, in the order of nj_state.classes.
#define NJ_CLASS_LETTERS "acdglpsuwxz"

static inline nj_state *nj_of(lua_State *L) { return *(nj_state **)lua_getextraspace(L); }

// watch.c
bool nj_watch_begin(nj_state *S); // false: this thread has no timer, so the hook must be set all the time
void nj_watch_end(nj_state *S);

// budget.c
void nj_choose_hook(nj_state *S);
bool nj_past_deadline(nj_state *S);
void nj_tick(nj_state *S); // called by the watch, on the thread that runs the call, at any point of it
void nj_adopt_hook(lua_State *L, nj_state *S); // another thread of the state starts running
int nj_raise_limit(lua_State *L);
// Must be called with the status of every protected call inside a call: a genuine memory error becomes the exhausted limit. (Lua turns error("not
// enough memory", 0) into the same status, so the allocator's own flag decides.)
static inline void nj_note_status(struct nj_state *S, int status) {
    if (status == LUA_ERRMEM && S->refused && S->limit == NJ_OK && S->in_call) S->limit = NJ_MEMORY;
}
void nj_check_budget(lua_State *L, nj_state *S, int64_t instructions);
void nj_mark_timeout(lua_State *L, nj_state *S);
// Counts work that the instruction hook cannot see: one unit is equivalent to one instruction, about 16 bytes examined.
static inline void nj_charge(lua_State *L, nj_state *S, size_t units) {
    S->charged += (int64_t)units;
    if (__builtin_expect(S->charged >= 1024, 0)) {
        int64_t charged = S->charged;
        S->charged = 0;
        nj_check_budget(L, S, charged);
    }
}

// state.c
void nj_set_message(nj_state *S, const char *where, const char *text, size_t length);
void nj_note_where(lua_State *L, nj_state *S);
int nj_fail_result(lua_State *L, const char *format, ...);
int64_t nj_cpu_now(void);

// buffers (buffer.c); false if memory is short
bool nj_buffer_reserve(nj_buffer *b, size_t more);
bool nj_buffer_append(nj_buffer *b, const void *bytes, size_t length);
size_t nj_escape_line(const char *text, size_t length, char *out, size_t capacity);
bool nj_is_utf8(const uint8_t *p, size_t length);

// document.c
void nj_open_documents(lua_State *L); // the handles' metatable
uint64_t nj_begin_document(nj_state *S, int slot, const nj_document *d);
bool nj_is_live(const nj_state *S, uint64_t handle);
bool nj_is_document(lua_State *L, int index); // a handle (alive or dead), not null or delete
// Copies the texts into the next slot, for the rest of the call; returns the handle. Raises an error if there are no slots left.
uint64_t nj_keep_document(lua_State *L, nj_state *S, nj_bytes body, nj_bytes revision, nj_bytes id, bool is_deleted);
nj_bytes nj_slice(lua_State *L, uint64_t handle); // raw JSON of the value; raises an error for a dead handle
int nj_document_next(lua_State *L); // next(handle, key)
lua_Integer nj_document_length(lua_State *L, uint64_t handle);

// json.c, encode.c
// What is encoded: any value; a document returned by a hook, without its _id and _rev; one from a test, likewise.
typedef enum { NJ_VALUE = 0, NJ_RETURNED, NJ_GIVEN } nj_role;
void nj_encode(lua_State *L, nj_state *S, int index, nj_buffer *out, size_t most, const char *what, nj_role role);
void nj_decode(lua_State *L, nj_state *S, nj_bytes text, const char *what);
void nj_decode_stored(lua_State *L, nj_state *S, nj_bytes text, const char *what); // a part of a document
void nj_push_value(lua_State *L, nj_state *S, const uint8_t *p, const uint8_t *end, uint64_t handle);
int nj_unescape(const uint8_t **p, const uint8_t *end, uint8_t out[4]);
bool nj_push_number(lua_State *L, const uint8_t *p, const uint8_t *end, const uint8_t **after);
void nj_push_marker(lua_State *L, bool is_array);
bool nj_is_marked(lua_State *L, int index, bool *is_array); // the table's metatable is a marker

// sandbox.c, coroutine.c, strings.c, tables.c, library.c, readonly.c
void nj_build_environment(lua_State *L);
void nj_open_strings(lua_State *L);   // takes the stock string table on top, leaves the guarded one
void nj_open_tables(lua_State *L);    // leaves the guarded table library
void nj_open_coroutines(lua_State *L);
void nj_open_dates(lua_State *L);     // takes the stock os table on top, leaves the guarded one above it
int nj_utf8_codes(lua_State *L);
void nj_open_library(lua_State *L);   // leaves `nightjar`
void nj_open_sync(lua_State *L);      // adds channel, access, role, require_…, expiry and throw to the table on top
int nj_time_parse(lua_State *L);      // nightjar.time.parse
void nj_push_text(lua_State *L, int index); // tostring without addresses
void nj_copy(lua_State *L, int index); // pushes a deep copy
bool nj_is_plain(lua_State *L, int index);
void nj_check_plain(lua_State *L, int argument);
int nj_host_call(lua_State *L, nj_state *S, nj_request *request); // status; raises when refused
int nj_log(lua_State *L, int level, const char *text, size_t length, nj_bytes fields);
int nj_require(lua_State *L);
int nj_load_chunk(lua_State *L, nj_state *S, nj_bytes name, nj_bytes source);
void nj_open_readonly(lua_State *L);
void nj_wrap_readonly(lua_State *L);  // replaces the table on top by a read-only view, deeply
bool nj_is_readonly(lua_State *L, int index);
void nj_push_readonly_table(lua_State *L, int index); // the table behind a view

// guards.c: an error for reading a member that conflict, ctx, ctx.flags or ctx.params never have
void nj_open_guards(lua_State *L);
void nj_guard_params(lua_State *L);   // pops the plugin's declarations of params, a table or nil
void nj_guard_conflict(lua_State *L); // the conflict on top
void nj_guard_context(lua_State *L);  // the ctx on top, before it is made read-only
// What a plugin's test gives at index: raises an error about a name that no conflict, ctx, ctx.flags or ctx.params of the plugin has.
void nj_check_test_conflict(lua_State *L, int index);
void nj_check_test_context(lua_State *L, int index);
extern const char *const nj_of_writer[]; // names that only a test's ctx has, NULL at the end
bool nj_is_guarded(lua_State *L, int index);

// charges.c
void nj_check_arguments(lua_State *L, nj_state *S); // charges all texts among them; raises an error if they exceed the block limit
void nj_wrap_charged(lua_State *L);         // replaces the C function on top by one that charges its first two texts
void nj_wrap_charged_for_all(lua_State *L); // … by one that charges all of its arguments

// layers.c: what scripts see of the environment and of each library
void nj_make_layer(lua_State *L);                   // replaces the table on top by a view of it
bool nj_push_layer_base(lua_State *L, int index);   // the table behind a view; false (and nothing) for other values
bool nj_layer_rawget(lua_State *L);                 // …, view, name -> …, view, value; false when it is nil
void nj_layer_rawset(lua_State *L);                 // of the arguments view, name, value
int nj_layer_next(lua_State *L);                    // of the arguments view, name
void nj_layer_save_metatable(lua_State *L, int index);
void nj_push_globals(lua_State *L, int view);       // `_G` of the environment's view
void nj_reset_layers(nj_state *S);                  // called at the end of a call that has changed some

// Registry keys (addresses).
extern const char nj_key_environment, nj_key_modules, nj_key_array, nj_key_object, nj_key_readonly, nj_key_text,
    nj_key_original, nj_key_conflict, nj_key_context, nj_key_flags, nj_key_params;

#endif
