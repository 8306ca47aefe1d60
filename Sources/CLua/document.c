// Read-only documents over raw JSON bytes: a field is located when it is read, and decoded only then.
#include "internal.h"

#include <stdlib.h>

#include "scan.h"

#define NJ_NOT_FOUND 0u
#define NJ_BAD_TEXT UINT32_MAX

static inline uint64_t handle_of(lua_State *L, int index) { return (uint64_t)(uintptr_t)lua_touserdata(L, index); }

bool nj_is_live(const nj_state *S, uint64_t handle) { return (handle >> 32) == S->generation && S->in_call; }

static inline nj_doc *document_of(nj_state *S, uint64_t handle) {
    return &S->docs[(handle >> NJ_OFFSET_BITS) & (NJ_DOCUMENT_SLOTS - 1)];
}

static inline uint32_t offset_of(uint64_t handle) { return (uint32_t)(handle & NJ_MAX_BODY); }

bool nj_is_document(lua_State *L, int index) {
    return lua_type(L, index) == LUA_TLIGHTUSERDATA && (handle_of(L, index) >> 32) != 0;
}

uint64_t nj_begin_document(nj_state *S, int slot, const nj_document *d) {
    nj_doc *doc = &S->docs[slot];
    doc->body = d->body.bytes;
    doc->length = (uint32_t)d->body.length;
    doc->id = d->id;
    doc->revision = d->revision;
    doc->is_deleted = d->is_deleted;
    if (doc->length == 0) { // a tombstone may have no body
        doc->body = (const uint8_t *)"{}";
        doc->length = 2;
    }
    doc->root = (uint32_t)(nj_space(doc->body, doc->body + doc->length) - doc->body);
    doc->search = (nj_search){.at = doc->root};
    if (slot >= S->documents) S->documents = slot + 1;
    return (uint64_t)S->generation << 32 | (uint64_t)slot << NJ_OFFSET_BITS | (doc->root & NJ_MAX_BODY);
}

uint64_t nj_keep_document(lua_State *L, nj_state *S, nj_bytes body, nj_bytes revision, nj_bytes id, bool is_deleted) {
    int slot = S->documents < NJ_OWN_DOCUMENTS ? NJ_OWN_DOCUMENTS : S->documents;
    if (slot >= NJ_DOCUMENT_SLOTS) {
        luaL_error(L, "more than %d documents in one call", NJ_DOCUMENT_SLOTS - NJ_OWN_DOCUMENTS);
    }
    if (body.length > NJ_MAX_BODY) luaL_error(L, "the document is larger than 64 MiB");
    // Outside Lua's memory, but its limit applies.
    if (body.length > (size_t)S->limits.memory - S->kept_bytes) {
        luaL_error(L, "the documents looked up in one call have more than %I bytes together (limit memory)", (LUAI_UACINT)S->limits.memory);
    }
    uint8_t *block = malloc(body.length + revision.length + id.length + 1);
    if (block == NULL) luaL_error(L, "the host is out of memory");
    if (body.length > 0) memcpy(block, body.bytes, body.length);
    if (revision.length > 0) memcpy(block + body.length, revision.bytes, revision.length);
    if (id.length > 0) memcpy(block + body.length + revision.length, id.bytes, id.length);
    S->docs[slot].owned = block;
    S->kept_bytes += body.length;
    nj_document d = {
        .id = {block + body.length + revision.length, id.length}, .revision = {block + body.length, revision.length},
        .body = {block, body.length}, .is_deleted = is_deleted, .is_present = true};
    return nj_begin_document(S, slot, &d);
}

static int raise_bad(lua_State *L) { return luaL_error(L, "the document's body is not valid JSON"); }

static int raise_dead(lua_State *L, uint64_t handle, const char *verb) {
    if (handle == NJ_HANDLE_NULL) return luaL_error(L, "cannot %s nightjar.null", verb);
    if (handle == NJ_HANDLE_DELETE) return luaL_error(L, "cannot %s nightjar.delete", verb);
    return luaL_error(L, "document no longer valid: it was kept after the call it was given to (keep nightjar.copy(doc) instead)");
}

// MARK: Searching for a member

// Token by token: for objects with escapes in their strings, where a key may be written differently.
static uint32_t walk_to_member(lua_State *L, nj_state *S, nj_doc *doc, uint32_t object, const char *key, size_t length) {
    const uint8_t *body = doc->body, *end = body + doc->length, *start = body + object, *p = start + 1;
    for (bool first = true;; first = false) {
        bool closed, escaped;
        if (!first) {
            p = nj_value_end(p, end);
            if (p == NULL) return NJ_BAD_TEXT;
        }
        const uint8_t *last = p;
        p = nj_step(p, end, first, &closed);
        if (p == NULL) {
            if (!closed) return NJ_BAD_TEXT;
            nj_charge(L, S, (size_t)(last - start) >> 4);
            return NJ_NOT_FOUND;
        }
        const uint8_t *raw;
        uint32_t raw_length;
        p = nj_key_at(p, end, &raw, &raw_length, &escaped);
        if (p == NULL) return NJ_BAD_TEXT;
        if (nj_key_equals(raw, raw_length, escaped, key, length)) {
            nj_charge(L, S, (size_t)(p - start) >> 4);
            return (uint32_t)(p - body);
        }
    }
}

// After a search that encountered escapes: bytes were compared as written, and a key may be written differently.
static uint32_t walk_after_search(
    lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, const char *key, size_t length, const nj_found *last) {
    uint32_t span = last->at - offset_of(handle);
    nj_note_search(S, handle, span * NJ_MEMBER_RESCANS, span); // this much more expensive than the block search
    return walk_to_member(L, S, doc, offset_of(handle), key, length);
}

static inline uint32_t answer(
    lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, const char *key, size_t length, uint32_t value, const nj_found *last) {
    if (value != 0) {
        if (__builtin_expect(!last->has_escapes, 1)) return value;
        // A requested key with a backslash may equal the raw text of an escape.
        return memchr(key, '\\', length) == NULL ? value : walk_after_search(L, S, doc, handle, key, length, last);
    }
    if (!last->closed) return NJ_BAD_TEXT;
    return last->has_escapes ? walk_after_search(L, S, doc, handle, key, length, last) : NJ_NOT_FOUND;
}

// The top level: positions found on the way are kept, and the search continues where the last one stopped.
static uint32_t find_at_root(lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, const char *key, size_t length) {
    const uint8_t *body = doc->body;
    if (__builtin_expect(doc->root >= doc->length || body[doc->root] != '{', 0)) return NJ_BAD_TEXT;
    uint32_t value;
    bool is_large = doc->search.blocks == NJ_BLOCKS; // the rest is searched each time
    if (__builtin_expect(is_large | (S->member_objects != 0), 0)
        && nj_find_indexed(L, S, handle, body, doc->length, doc->root, key, length, &value)) return value;
    nj_wanted wanted = nj_want(key, length);
    nj_found last;
    uint32_t from = doc->search.at;
    value = S->search(&doc->search, body, doc->length, &wanted, doc->root, doc->opened, &last);
    if (__builtin_expect(is_large, 0)) nj_note_search(S, handle, last.at - from, last.at - doc->root);
    nj_charge(L, S, (last.at - from) >> 5);
    return answer(L, S, doc, handle, key, length, value, &last);
}

static uint32_t find_nested(lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, const char *key, size_t length) {
    uint32_t object = offset_of(handle), value;
    if (__builtin_expect(S->member_objects != 0, 0)
        && nj_find_indexed(L, S, handle, doc->body, doc->length, object, key, length, &value)) return value;
    nj_wanted wanted = nj_want(key, length);
    nj_search search = {.at = object};
    nj_found last;
    value = S->search(&search, doc->body, doc->length, &wanted, object, NULL, &last);
    uint32_t span = last.at - object;
    if (__builtin_expect(span > NJ_MEMBER_SPAN, 0)) nj_note_search(S, handle, span, span);
    nj_charge(L, S, span >> 5);
    return answer(L, S, doc, handle, key, length, value, &last);
}

// MARK: Elements of an array

static inline nj_cursor *cursor_of(nj_state *S, uint64_t handle) {
    nj_cursor *cursor = &S->cursors[(handle * 0x9E3779B97F4A7C15u) >> 60];
    if (cursor->handle != handle) *cursor = (nj_cursor){handle, 0, 0, -1};
    return cursor;
}

static uint32_t find_element(lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, lua_Integer index) {
    if (index < 1) return NJ_NOT_FOUND;
    nj_cursor *cursor = cursor_of(S, handle);
    if (cursor->length >= 0 && index > cursor->length) return NJ_NOT_FOUND;
    const uint8_t *body = doc->body, *end = body + doc->length, *p, *start;
    lua_Integer at;
    bool closed;
    if (cursor->index != 0 && (lua_Integer)cursor->index <= index) {
        at = cursor->index;
        start = p = body + cursor->offset;
    } else {
        at = 1;
        start = body + offset_of(handle);
        p = nj_step(start + 1, end, true, &closed);
        if (p == NULL) {
            if (!closed) return NJ_BAD_TEXT;
            cursor->length = 0;
            return NJ_NOT_FOUND;
        }
    }
    while (at < index) {
        p = nj_value_end(p, end);
        if (p == NULL) return NJ_BAD_TEXT;
        const uint8_t *last = p;
        p = nj_step(p, end, false, &closed);
        if (p == NULL) {
            if (!closed) return NJ_BAD_TEXT;
            cursor->length = (int32_t)at;
            nj_charge(L, S, (size_t)(last - start) >> 4);
            return NJ_NOT_FOUND;
        }
        at++;
    }
    cursor->index = (uint32_t)at;
    cursor->offset = (uint32_t)(p - body);
    nj_charge(L, S, (size_t)(p - start) >> 4);
    return cursor->offset;
}

lua_Integer nj_document_length(lua_State *L, uint64_t handle) {
    nj_state *S = nj_of(L);
    if (!nj_is_live(S, handle)) return raise_dead(L, handle, "take the length of");
    nj_doc *doc = document_of(S, handle);
    if (offset_of(handle) >= doc->length || doc->body[offset_of(handle)] != '[') return 0;
    nj_cursor *cursor = cursor_of(S, handle);
    if (cursor->length >= 0) return cursor->length;
    // Counted from the first element, without moving the position of an iteration in progress.
    const uint8_t *start = doc->body + offset_of(handle), *end = doc->body + doc->length;
    int32_t count = 0;
    bool closed;
    const uint8_t *p = nj_step(start + 1, end, true, &closed);
    while (p != NULL) {
        count++;
        p = nj_value_end(p, end);
        if (p == NULL) return raise_bad(L);
        if ((count & 1023) == 0) nj_charge(L, S, 1024);
        p = nj_step(p, end, false, &closed);
    }
    if (!closed) return raise_bad(L);
    cursor->length = count;
    nj_charge(L, S, (size_t)count >> 2);
    return count;
}

// MARK: Metamethods

static int push_at(lua_State *L, nj_state *S, nj_doc *doc, uint64_t handle, uint32_t offset) {
    if (__builtin_expect(offset == NJ_NOT_FOUND, 0)) {
        lua_pushnil(L);
        return 1;
    }
    if (__builtin_expect(offset == NJ_BAD_TEXT, 0)) return raise_bad(L);
    nj_push_value(L, S, doc->body + offset, doc->body + doc->length, (handle & ~(uint64_t)NJ_MAX_BODY) | offset);
    return 1;
}

static void push_name(lua_State *L, nj_state *S, const nj_doc *doc, nj_bytes given, int part) {
    if (doc->id.bytes != NULL) {
        lua_pushlstring(L, given.bytes, given.length);
        return;
    }
    nj_request request = {.operation = NJ_HOST_NAMES, .integer = doc->number};
    nj_host_call(L, S, &request);
    lua_pushlstring(L, (const char *)S->reply.part[part], S->reply.length[part]);
}

static bool push_metadata(lua_State *L, nj_state *S, const nj_doc *doc, const char *key, size_t length) {
    if (length == 3 && memcmp(key, "_id", 3) == 0) {
        push_name(L, S, doc, doc->id, 0);
    } else if (length == 4 && memcmp(key, "_rev", 4) == 0) {
        push_name(L, S, doc, doc->revision, 1);
    } else if (length == 8 && memcmp(key, "_deleted", 8) == 0) {
        lua_pushboolean(L, doc->is_deleted);
    } else {
        return false;
    }
    return true;
}

static int document_index(lua_State *L) {
    nj_state *S = nj_of(L);
    uint64_t handle = handle_of(L, 1);
    if (!nj_is_live(S, handle)) return raise_dead(L, handle, "read a field of");
    nj_doc *doc = document_of(S, handle);
    uint32_t offset = offset_of(handle);
    int type = lua_type(L, 2);
    if (type == LUA_TSTRING) {
        size_t length;
        const char *key = lua_tolstring(L, 2, &length);
        if (offset == doc->root) {
            if (key[0] == '_' && push_metadata(L, S, doc, key, length)) return 1;
            return push_at(L, S, doc, handle, find_at_root(L, S, doc, handle, key, length));
        }
        if (offset >= doc->length || doc->body[offset] != '{') return lua_pushnil(L), 1;
        return push_at(L, S, doc, handle, find_nested(L, S, doc, handle, key, length));
    }
    if (type == LUA_TNUMBER && offset < doc->length && doc->body[offset] == '[') {
        int exact;
        lua_Integer index = lua_tointegerx(L, 2, &exact);
        if (exact) return push_at(L, S, doc, handle, find_element(L, S, doc, handle, index));
    }
    lua_pushnil(L);
    return 1;
}

static int document_newindex(lua_State *L) {
    nj_state *S = nj_of(L);
    uint64_t handle = handle_of(L, 1);
    if (!nj_is_live(S, handle)) return raise_dead(L, handle, "set a field of");
    nj_push_text(L, 2);
    return luaL_error(
        L, "the document is read-only: cannot set '%s' (nightjar.copy(doc) gives a table to edit)", lua_tostring(L, -1));
}

static int document_len(lua_State *L) {
    lua_pushinteger(L, nj_document_length(L, handle_of(L, 1)));
    return 1;
}

static void push_key(lua_State *L, nj_state *S, const uint8_t *raw, uint32_t length, const uint8_t *end) {
    if (memchr(raw, '\\', length) == NULL) lua_pushlstring(L, (const char *)raw, length);
    else nj_push_value(L, S, raw - 1, end, 0); // including its opening quote
}

int nj_document_next(lua_State *L) {
    nj_state *S = nj_of(L);
    uint64_t handle = handle_of(L, 1);
    if (!nj_is_live(S, handle)) return raise_dead(L, handle, "go through");
    nj_doc *doc = document_of(S, handle);
    uint64_t base = handle & ~(uint64_t)NJ_MAX_BODY;
    uint32_t offset = offset_of(handle);
    const uint8_t *body = doc->body, *end = body + doc->length, *p;
    if (offset >= doc->length) return raise_bad(L);
    lua_settop(L, 2);
    if (body[offset] == '[') {
        lua_Integer index = lua_isnil(L, 2) ? 0 : luaL_checkinteger(L, 2);
        if (index < 0 || index == LUA_MAXINTEGER) return lua_pushnil(L), 1;
        uint32_t value = find_element(L, S, doc, handle, index + 1);
        if (value == NJ_BAD_TEXT) return raise_bad(L);
        if (value == NJ_NOT_FOUND) return lua_pushnil(L), 1;
        lua_pushinteger(L, index + 1);
        nj_push_value(L, S, body + value, end, base | value);
        return 2;
    }
    if (body[offset] != '{') return raise_bad(L);

    const uint8_t *raw, *start = body + offset;
    uint32_t length;
    bool escaped, closed;
    if (lua_isnil(L, 2)) {
        p = nj_step(start + 1, end, true, &closed);
    } else {
        size_t key_length;
        const char *key = luaL_checklstring(L, 2, &key_length);
        nj_cursor *cursor = cursor_of(S, handle);
        const uint8_t *value = NULL;
        if (cursor->index != 0) { // the usual case: the key returned last
            p = nj_key_at(body + cursor->offset - 1, end, &raw, &length, &escaped);
            if (p != NULL && nj_key_equals(raw, length, escaped, key, key_length)) value = p;
        }
        if (value == NULL) {
            uint32_t found;
            if (!nj_find_indexed(L, S, handle, body, doc->length, offset, key, key_length, &found)) {
                found = walk_to_member(L, S, doc, offset, key, key_length);
                if (found > offset + NJ_MEMBER_SPAN && found != NJ_BAD_TEXT) nj_note_search(S, handle, found - offset, found - offset);
            }
            if (found == NJ_BAD_TEXT) return raise_bad(L);
            if (found == NJ_NOT_FOUND) return luaL_error(L, "there is no field '%s' to go on from", key);
            value = body + found;
        }
        start = value;
        p = nj_value_end(value, end);
        if (p == NULL) return raise_bad(L);
        p = nj_step(p, end, false, &closed);
    }
    if (p == NULL) return closed ? (lua_pushnil(L), 1) : raise_bad(L);
    p = nj_key_at(p, end, &raw, &length, &escaped);
    if (p == NULL) return raise_bad(L);
    nj_cursor *cursor = cursor_of(S, handle);
    cursor->index = 1;
    cursor->offset = (uint32_t)(raw - body);
    nj_charge(L, S, 1 + ((size_t)(p - start) >> 4));
    push_key(L, S, raw, length, end);
    nj_push_value(L, S, p, end, base | (uint32_t)(p - body));
    return 2;
}

static int document_pairs(lua_State *L) {
    uint64_t handle = handle_of(L, 1);
    if (!nj_is_live(nj_of(L), handle)) return raise_dead(L, handle, "go through");
    lua_pushcfunction(L, nj_document_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

nj_bytes nj_slice(lua_State *L, uint64_t handle) {
    nj_state *S = nj_of(L);
    if (!nj_is_live(S, handle)) raise_dead(L, handle, "use");
    nj_doc *doc = document_of(S, handle);
    const uint8_t *start = doc->body + offset_of(handle), *end = doc->body + doc->length;
    const uint8_t *after = nj_value_end(start, end);
    if (after == NULL) raise_bad(L);
    nj_charge(L, S, (size_t)(after - start) >> 4);
    return (nj_bytes){start, (size_t)(after - start)};
}

void nj_open_documents(lua_State *L) {
    static const luaL_Reg metamethods[] = {
        {"__index", document_index}, {"__newindex", document_newindex}, {"__len", document_len},
        {"__pairs", document_pairs}, {NULL, NULL}};
    lua_pushlightuserdata(L, NULL);
    luaL_newlib(L, metamethods);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2); // of every light userdata in this state: they are all handles
    lua_pop(L, 1);
}
