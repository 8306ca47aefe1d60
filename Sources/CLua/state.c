// The life cycle of a state: memory limit, protected entry, and failure messages.
#define _GNU_SOURCE
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "calls.h"

const char nj_key_environment = 0, nj_key_modules = 0, nj_key_array = 0, nj_key_object = 0, nj_key_readonly = 0,
    nj_key_text = 0, nj_key_original = 0, nj_key_conflict = 0, nj_key_context = 0, nj_key_flags = 0, nj_key_params = 0;

// MARK: Memory

// Blocks from this size on warrant a check of the clock: filling one takes microseconds, and a loop of library calls that each create one uses few
// instructions.
enum { NJ_LARGE_BLOCK = 64 << 10 };

// If all keys of a table collide, which whole numbers and fractions can be chosen to do, moving them to another block costs the square of their
// number in one instruction: 0.05 s with this many keys, 2 s with those that fit into a block of 1 MiB.
enum { NJ_KEY_BYTES = 24 };

// The number of a table's key slots is a power of two, in a block that is always newly allocated. (An array created at once with 1.5 times a power of
// two of elements, 24,576 or more, looks the same, and is refused too.)
static bool holds_too_many_keys(const void *block, size_t kind, size_t size) {
    if (block != NULL || kind != 0 || size <= (size_t)NJ_MOST_KEYS * NJ_KEY_BYTES || size % NJ_KEY_BYTES != 0) return false;
    size_t places = size / NJ_KEY_BYTES;
    return (places & (places - 1)) == 0;
}

static void *allocate(void *context, void *block, size_t old, size_t new) {
    nj_state *S = context;
    bool is_refused = holds_too_many_keys(block, old, new);
    if (block == NULL) old = 0; // in this case it contains the kind of object
    if (new == 0) {
        free(block);
        S->used -= old;
        return NULL;
    }
    if (new > old && !S->unlimited) {
        if (is_refused || new > (size_t)S->limits.block || S->used - old + new > (size_t)S->limits.memory) {
            S->refused = true;
            // Lua collects all garbage before it gives up, and continues without the block where it can: once its string table is as large as a
            // block, every new string would cost that.
            if (S->in_call && S->limit == NJ_OK && S->running != NULL) {
                if (nj_past_deadline(S)) nj_mark_timeout(S->running, S);
                else nj_note_where(S->running, S);
            }
            return NULL;
        }
        if (new >= NJ_LARGE_BLOCK && S->in_call && (S->limit != NJ_OK || nj_past_deadline(S))) {
            S->refused = true;
            if (S->limit == NJ_OK) nj_mark_timeout(S->running, S);
            return NULL;
        }
    }
    void *result = realloc(block, new);
    if (result == NULL) {
        if (new <= old) return block; // Lua relies on shrinking to succeed
        S->refused = true;
        return NULL;
    }
    S->used = S->used - old + new;
    if (S->used > S->peak) S->peak = S->used;
    return result;
}

// MARK: Messages

void nj_set_message(nj_state *S, const char *where, const char *text, size_t length) {
    size_t prefix = strlen(where);
    memcpy(S->message, where, prefix); // shorter than S->message by its type
    S->message_length = prefix + nj_escape_line(text, length, S->message + prefix, sizeof S->message - prefix);
}

// Allocates nothing, because it is also used when memory is exhausted.
void nj_note_where(lua_State *L, nj_state *S) {
    lua_Debug ar;
    for (int level = 0; level < 64 && lua_getstack(L, level, &ar); level++) {
        if (lua_getinfo(L, "Sl", &ar) && ar.currentline > 0) {
            char raw[160];
            int n = snprintf(raw, sizeof raw, "%s:%d: ", ar.short_src, ar.currentline);
            size_t used = nj_escape_line(raw, n < (int)sizeof raw ? (size_t)n : sizeof raw - 1, S->where, sizeof S->where - 1);
            S->where[used] = 0;
            return;
        }
    }
}

// Does the text begin with "name.lua:12: " already?
static bool has_position(const char *text, size_t length) {
    const char *colon = memchr(text, ':', length < 120 ? length : 120);
    if (colon == NULL || colon == text) return false;
    const char *end = text + length, *p = colon + 1;
    if (p >= end || *p < '0' || *p > '9') return false;
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p < end && *p == ':';
}

// The message handler of every entry: records the text where the error is raised, while its line is still known.
static int note_error(lua_State *L) {
    nj_state *S = nj_of(L);
    if (S->limit != NJ_OK) return 1;
    nj_note_where(L, S);
    char text[96];
    size_t length = 0;
    const char *bytes = text;
    switch (lua_type(L, 1)) {
    case LUA_TSTRING: bytes = lua_tolstring(L, 1, &length); break;
    case LUA_TNUMBER:
        length = (size_t)(lua_isinteger(L, 1) ? snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(L, 1))
                                              : snprintf(text, sizeof text, "%.14g", lua_tonumber(L, 1)));
        break;
    case LUA_TTABLE:
        // error{ message = "…" } is a common form; nothing else of the script's is consulted.
        lua_pushliteral(L, "message");
        lua_rawget(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING) {
            bytes = lua_tolstring(L, -1, &length);
            break;
        }
        // fall through
    default:
        length = (size_t)snprintf(text, sizeof text, "error raised with a %s instead of a text", luaL_typename(L, 1));
    }
    nj_set_message(S, has_position(bytes, length) ? "" : S->where, bytes, length);
    return 1;
}

int nj_fail_result(lua_State *L, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    return lua_error(L);
}

nj_bytes nj_message(const nj_state *S) { return (nj_bytes){S->message, S->message_length}; }
nj_bytes nj_output(const nj_state *S) { return (nj_bytes){S->output.bytes, S->output.length}; }

// MARK: Entry

enum { NJ_KEPT_BUFFER = 1 << 20 };

static void drop_buffer(nj_buffer *b) {
    free(b->bytes);
    *b = (nj_buffer){NULL, 0, 0};
}

static void begin_question(nj_state *S) {
    S->is_result = false;
    S->refused = false;
    S->limit = NJ_OK;
    S->instructions = 0;
    S->charged = 0;
    S->wall_start = 0;
    S->cpu_start = 0;
    S->documents = 0;
    S->lookups = 0;
    S->kept_bytes = 0;
    S->log_lines = 0;
    S->where[0] = 0;
    S->ticks = 0;
}

static void end_question(nj_state *S) {
    if (__builtin_expect(S->layers_changed != 0, 0)) nj_reset_layers(S);
    // Handles must not repeat: well before that, the state asks to be rebuilt.
    if (__builtin_expect(S->generation >= UINT32_MAX - (1 << 20), 0)) S->exhausted = true;
    if (++S->generation == 0) S->generation = 1;
    if (__builtin_expect(S->member_objects != 0, 0)) nj_drop_members(S);
    for (int i = NJ_OWN_DOCUMENTS; i < S->documents; i++) {
        free(S->docs[i].owned);
        S->docs[i].owned = NULL;
    }
    if (__builtin_expect(S->log_lines > S->limits.log_lines, 0)) {
        nj_request request = {.operation = NJ_HOST_LOG_DROPPED, .integer = S->log_lines - S->limits.log_lines};
        S->host(S->host_context, &request, &S->reply);
    }
}

bool nj_begin(nj_state *S, const nj_budget *budget) {
    if (S->in_call) {
        static const char text[] = "the plugin is called again from inside its own call";
        nj_set_message(S, "", text, sizeof text - 1);
        return false;
    }
    // The output of the last call has been read by now; do not keep the memory of a rare large one.
    if (__builtin_expect(S->output.capacity > NJ_KEPT_BUFFER, 0)) drop_buffer(&S->output);
    if (__builtin_expect(S->scratch.capacity > NJ_KEPT_BUFFER, 0)) drop_buffer(&S->scratch);
    S->in_call = true;
    S->budget = *budget;
    S->running = S->L;
    begin_question(S);
    nj_choose_hook(S);
    return true;
}

void nj_next_question(nj_state *S) {
    end_question(S);
    begin_question(S);
}

int nj_end(nj_state *S, int status, int kind_of_error) {
    S->in_call = false;
    nj_watch_end(S);
    S->loading = false;
    end_question(S);
    if (__builtin_expect(status == LUA_OK && S->limit == NJ_OK, 1)) return NJ_OK;

    lua_settop(S->L, NJ_BASE);
    S->hook_count = -1; // it may run at every instruction now: the next call sets what it needs
    S->key_count = 0;
    if (S->limit == NJ_TIMEOUT) return NJ_TIMEOUT;
    if (status == LUA_ERRMEM && !S->refused) {
        static const char text[] = "not enough memory";
        nj_set_message(S, S->where, text, sizeof text - 1);
        return kind_of_error;
    }
    if (S->limit == NJ_MEMORY || status == LUA_ERRMEM) {
        char text[200];
        int n = snprintf(
            text, sizeof text, "not enough memory (limits: %lld bytes in all, %lld in one block, %d keys in one table besides its sequence)",
            (long long)S->limits.memory, (long long)S->limits.block, NJ_MOST_KEYS);
        nj_set_message(S, S->where, text, (size_t)n);
        S->exhausted = true;
        return NJ_MEMORY;
    }
    if (status == LUA_ERRERR) {
        static const char text[] = "error while handling an error";
        nj_set_message(S, S->where, text, sizeof text - 1);
    }
    return S->is_result && kind_of_error != NJ_LOAD ? NJ_RESULT : kind_of_error;
}

int nj_protected(nj_state *S, lua_CFunction function, void *argument) {
    lua_State *L = S->L;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, argument);
    return lua_pcall(L, 1, 0, 1);
}

// MARK: Life

static int panicked(lua_State *L) {
    // Only reached by an allocating Lua call outside a protected one, of which this target has none.
    (void)L;
    static const char text[] = "nightjar: unprotected Lua error, ending\n";
    fputs(text, stderr);
    abort();
}

static int set_up(lua_State *L) {
    // Lua creates these strings when memory may be exhausted, outside any protection; interned and alive, they cost nothing then.
    lua_newtable(L);
    lua_pushliteral(L, "error in error handling");
    lua_rawseti(L, -2, 1);
    lua_pushliteral(L, "C stack overflow");
    lua_rawseti(L, -2, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &nj_key_text);
    nj_build_environment(L);
    nj_open_guards(L);
    return 0;
}

nj_state *nj_open(const nj_limits *limits, nj_host_function host, void *context) {
    nj_state *S = calloc(1, sizeof *S);
    if (S == NULL) return NULL;
    S->limits = *limits;
    if (S->limits.result_depth > NJ_DEEPEST) S->limits.result_depth = NJ_DEEPEST;
    if (S->limits.lookups > NJ_MAX_LOOKUPS) S->limits.lookups = NJ_MAX_LOOKUPS;
    S->host = host;
    S->host_context = context;
    S->search = nj_choose_search();
    S->generation = 1;
    S->tests = LUA_NOREF;
    S->plugin_table = LUA_NOREF;
    lua_State *L = lua_newstate(allocate, S);
    if (L == NULL) {
        free(S);
        return NULL;
    }
    S->L = S->running = L;
    *(nj_state **)lua_getextraspace(L) = S;
    lua_atpanic(L, panicked);
    lua_pushcfunction(L, note_error);
    for (int i = 1; i < NJ_BASE; i++) lua_pushnil(L);
    S->use_in_slot = -1;
    // The hooks occupy most of the stack slots that C functions get without asking; loading needs them again.
    if (!lua_checkstack(L, LUA_MINSTACK) || nj_protected(S, set_up, NULL) != LUA_OK) {
        nj_close(S);
        return NULL;
    }
    return S;
}

void nj_close(nj_state *S) {
    if (S == NULL) return;
    lua_close(S->L);
    for (int i = 0; i < NJ_DOCUMENT_SLOTS; i++) free(S->docs[i].owned);
    nj_drop_members(S);
    free(S->reply.part[0]);
    free(S->reply.part[1]);
    free(S->output.bytes);
    free(S->scratch.bytes);
    free(S->keys);
    free(S->uses);
    free(S);
}

size_t nj_memory(const nj_state *S) { return S->used; }
size_t nj_peak_memory(const nj_state *S) { return S->peak; }
int64_t nj_last_instructions(const nj_state *S) { return S->instructions; }

bool nj_needs_rebuild(nj_state *S) {
    if (S->exhausted) return true;
    size_t most = (size_t)S->limits.memory / 8 * 7;
    if (S->used <= most || S->in_call) return false;
    lua_gc(S->L, LUA_GCCOLLECT, 0); // runs no script: finalizers cannot be set
    return S->used > most;
}
