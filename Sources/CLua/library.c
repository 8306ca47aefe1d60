// `nightjar`: the only things that a plugin can reach beyond Lua itself. Anything that needs the outside world is requested from the host, which
// returns; only then does this side raise errors.
#define _GNU_SOURCE
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// MARK: The host

bool nj_reply_set(nj_reply *reply, int32_t part, const void *bytes, size_t length) {
    if (part < 0 || part > 1) return false;
    uint8_t *copy = realloc(reply->part[part], length + 1);
    if (copy == NULL) return false;
    if (length > 0) memcpy(copy, bytes, length);
    copy[length] = 0;
    reply->part[part] = copy;
    reply->length[part] = length;
    return true;
}

void nj_reply_set_numbers(nj_reply *reply, int64_t integer, double number) {
    reply->integer = integer;
    reply->number = number;
}

int nj_host_call(lua_State *L, nj_state *S, nj_request *request) {
    S->reply.length[0] = S->reply.length[1] = 0;
    S->reply.integer = 0;
    S->reply.number = 0;
    if (!nj_reply_set(&S->reply, 0, "", 0) || !nj_reply_set(&S->reply, 1, "", 0)) return luaL_error(L, "the host is out of memory");
    int status = S->host(S->host_context, request, &S->reply);
    if (status == NJ_HOST_REFUSED) {
        lua_pushlstring(L, (const char *)S->reply.part[0], S->reply.length[0]);
        return luaL_error(L, "%s", lua_tostring(L, -1));
    }
    return status;
}

static nj_bytes bytes_at(lua_State *L, int argument) {
    size_t length;
    const char *bytes = luaL_checklstring(L, argument, &length);
    return (nj_bytes){bytes, length};
}

static int push_reply(lua_State *L, nj_state *S) {
    lua_pushlstring(L, (const char *)S->reply.part[0], S->reply.length[0]);
    return 1;
}

// An optional table argument as JSON, in the state's output buffer until the next one overwrites it.
static nj_bytes fields_at(lua_State *L, nj_state *S, int argument, const char *what) {
    if (lua_isnoneornil(L, argument)) return (nj_bytes){NULL, 0};
    if (!lua_istable(L, argument) && !nj_is_document(L, argument) && !nj_is_readonly(L, argument)) {
        luaL_typeerror(L, argument, "table");
    }
    nj_encode(L, S, argument, &S->output, (size_t)S->limits.block, what, NJ_VALUE);
    if (S->output.bytes[0] != '{') luaL_argerror(L, argument, "an object expected, not an array");
    return (nj_bytes){S->output.bytes, S->output.length};
}

// MARK: log

int nj_log(lua_State *L, int level, const char *text, size_t length, nj_bytes fields) {
    nj_state *S = nj_of(L);
    if (++S->log_lines > S->limits.log_lines) return 0;
    size_t capacity = (size_t)S->limits.log_line + 8;
    S->scratch.length = 0;
    if (!nj_buffer_reserve(&S->scratch, capacity)) return luaL_error(L, "the host is out of memory");
    char *line = (char *)S->scratch.bytes;
    if (length > capacity) nj_charge(L, S, length >> 4);
    size_t used = nj_escape_line(text, length, line, capacity);
    nj_request request = {NJ_HOST_LOG, level, 0, {line, used}, fields};
    nj_host_call(L, S, &request);
    return 0;
}

static int log_at_level(lua_State *L) {
    nj_state *S = nj_of(L);
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    nj_push_text(L, 1);
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (S->log_lines >= S->limits.log_lines) return S->log_lines++, 0; // dropped; do not encode its fields
    nj_bytes fields = fields_at(L, S, 2, "log fields");
    char instead[100];
    int most = S->limits.log_fields;
    if (fields.length > (size_t)most) { // a log line must not make a policy fail, nor fill the disk
        int n = snprintf(instead, sizeof instead, "{\"fields\":\"left out: %lld bytes, more than log fields = %d\"}", (long long)fields.length, most);
        fields = (nj_bytes){instead, (size_t)n};
    }
    return nj_log(L, (int)lua_tointeger(L, lua_upvalueindex(1)), text, length, fields);
}

// MARK: json, values

static int json_encode(lua_State *L) {
    nj_state *S = nj_of(L);
    luaL_checkany(L, 1);
    nj_encode(L, S, 1, &S->output, (size_t)S->limits.block - 64, "json.encode", NJ_VALUE);
    lua_pushlstring(L, (const char *)S->output.bytes, S->output.length);
    return 1;
}

static int json_decode(lua_State *L) {
    nj_decode(L, nj_of(L), bytes_at(L, 1), "json.decode");
    return 1;
}

static void copy_table(lua_State *L, nj_state *S, int table, int depth, int *nodes) {
    if (depth >= S->limits.result_depth) luaL_error(L, "copy: nested deeper than %d, or a cycle (limit result depth)", S->limits.result_depth);
    luaL_checkstack(L, 8, "copy");
    bool is_array;
    lua_newtable(L);
    if (nj_is_marked(L, table, &is_array)) {
        nj_push_marker(L, is_array);
        lua_setmetatable(L, -2);
    }
    int target = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (++*nodes > S->limits.result_nodes) luaL_error(L, "copy: more than %d values (limit result nodes)", S->limits.result_nodes);
        nj_charge(L, S, 2);
        if (lua_istable(L, -1)) {
            copy_table(L, S, lua_gettop(L), depth + 1, nodes);
            lua_remove(L, -2);
        } else if (nj_is_readonly(L, -1)) {
            nj_push_readonly_table(L, -1);
            copy_table(L, S, lua_gettop(L), depth + 1, nodes);
            lua_replace(L, -3);
            lua_pop(L, 1);
        } else if (nj_is_document(L, -1)) {
            nj_decode_stored(L, S, nj_slice(L, (uint64_t)(uintptr_t)lua_touserdata(L, -1)), "copy");
            lua_remove(L, -2);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, target);
    }
}

void nj_copy(lua_State *L, int index) {
    nj_state *S = nj_of(L);
    int nodes = 0;
    index = lua_absindex(L, index);
    if (nj_is_document(L, index)) {
        nj_decode_stored(L, S, nj_slice(L, (uint64_t)(uintptr_t)lua_touserdata(L, index)), "copy");
    } else if (nj_is_readonly(L, index)) {
        nj_push_readonly_table(L, index);
        copy_table(L, S, lua_gettop(L), 0, &nodes);
        lua_remove(L, -2);
    } else if (lua_istable(L, index)) {
        copy_table(L, S, index, 0, &nodes);
    } else {
        lua_pushvalue(L, index);
    }
}

// A plain table for editing, copied from a document or a part of one, from ctx, or from a table.
static int copy(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    nj_copy(L, 1);
    return 1;
}

static int mark(lua_State *L, bool is_array) {
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    nj_check_plain(L, 1);
    lua_settop(L, 1);
    nj_push_marker(L, is_array);
    lua_setmetatable(L, 1);
    return 1;
}

static int array(lua_State *L) { return mark(L, true); }
static int object(lua_State *L) { return mark(L, false); }

// MARK: Outside services

static int uuid(lua_State *L) {
    nj_request request = {.operation = NJ_HOST_UUID};
    nj_host_call(L, nj_of(L), &request);
    return push_reply(L, nj_of(L));
}

static int time_now(lua_State *L) {
    nj_request request = {.operation = NJ_HOST_NOW};
    nj_host_call(L, nj_of(L), &request);
    lua_pushnumber(L, nj_of(L)->reply.number);
    return 1;
}

static int push_hex(lua_State *L, nj_state *S) {
    static const char digits[] = "0123456789abcdef";
    char text[256];
    size_t n = S->reply.length[0] > 128 ? 128 : S->reply.length[0];
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[S->reply.part[0][i] >> 4];
        text[2 * i + 1] = digits[S->reply.part[0][i] & 15];
    }
    lua_pushlstring(L, text, 2 * n);
    return 1;
}

static int digest(lua_State *L) {
    nj_state *S = nj_of(L);
    nj_request request = {.operation = (int32_t)lua_tointeger(L, lua_upvalueindex(1)), .first = bytes_at(L, 1)};
    nj_charge(L, S, 32 + (request.first.length >> 1));
    nj_host_call(L, S, &request);
    return push_hex(L, S);
}

static int hmac_sha256(lua_State *L) {
    nj_state *S = nj_of(L);
    nj_request request = {.operation = NJ_HOST_HMAC_SHA256, .first = bytes_at(L, 1), .second = bytes_at(L, 2)};
    nj_charge(L, S, 64 + ((request.first.length + request.second.length) >> 1));
    nj_host_call(L, S, &request);
    return push_hex(L, S);
}

static int password_hash(lua_State *L) {
    nj_request request = {.operation = NJ_HOST_PASSWORD_HASH, .first = bytes_at(L, 1)};
    nj_host_call(L, nj_of(L), &request);
    return push_reply(L, nj_of(L));
}

static int password_verify(lua_State *L) {
    nj_request request = {.operation = NJ_HOST_PASSWORD_VERIFY, .first = bytes_at(L, 1), .second = bytes_at(L, 2)};
    nj_host_call(L, nj_of(L), &request);
    lua_pushboolean(L, nj_of(L)->reply.integer != 0);
    return 1;
}

static int metric(lua_State *L) {
    nj_state *S = nj_of(L);
    nj_bytes name = bytes_at(L, 1);
    int kind = (int)lua_tointeger(L, lua_upvalueindex(1));
    double value = kind == 0 ? luaL_optnumber(L, 2, 1) : luaL_checknumber(L, 2);
    luaL_argcheck(L, isfinite(value), 2, "finite number expected");
    luaL_argcheck(L, name.length > 0 && name.length <= 100, 1, "a name of 1 to 100 bytes expected");
    nj_request request = {NJ_HOST_METRIC, kind, value, name, fields_at(L, S, 3, "metric labels")};
    nj_charge(L, S, 32);
    nj_host_call(L, S, &request);
    return 0;
}

// get(id) or get(collection, id): a read-only document, valid as long as the call's own.
static int get(lua_State *L) {
    nj_state *S = nj_of(L);
    bool has_collection = lua_gettop(L) >= 2;
    nj_request request = {.operation = NJ_HOST_GET};
    if (has_collection && !lua_isnil(L, 1)) request.first = bytes_at(L, 1);
    request.second = bytes_at(L, has_collection ? 2 : 1);
    if (!S->in_call) return luaL_error(L, "nightjar.get is only available in a call");
    if (S->lookups >= S->limits.lookups)
        return luaL_error(L, "more than %d documents looked up in one call (limit lookups)", S->limits.lookups);
    nj_charge(L, S, 64);
    if (nj_host_call(L, S, &request) == NJ_HOST_ABSENT) return lua_pushnil(L), 1;
    uint64_t handle = nj_keep_document(
        L, S, (nj_bytes){S->reply.part[0], S->reply.length[0]}, (nj_bytes){S->reply.part[1], S->reply.length[1]},
        request.second, S->reply.integer != 0);
    S->lookups++;
    nj_reply_set(&S->reply, 0, "", 0); // its buffer may be large
    lua_pushlightuserdata(L, (void *)(uintptr_t)handle);
    return 1;
}

// MARK: state

static int state_index(lua_State *L) {
    nj_state *S = nj_of(L);
    nj_request request = {.operation = NJ_HOST_STATE_READ, .first = bytes_at(L, 2)};
    nj_charge(L, S, 64);
    if (nj_host_call(L, S, &request) == NJ_HOST_ABSENT) return lua_pushnil(L), 1;
    nj_decode(L, S, (nj_bytes){S->reply.part[0], S->reply.length[0]}, "state");
    return 1;
}

static int state_newindex(lua_State *L) {
    nj_state *S = nj_of(L);
    nj_request request = {.operation = NJ_HOST_STATE_WRITE, .first = bytes_at(L, 2)};
    if (!lua_isnil(L, 3)) {
        nj_encode(L, S, 3, &S->output, (size_t)S->limits.block, "state", NJ_VALUE);
        request.second = (nj_bytes){S->output.bytes, S->output.length};
    }
    nj_charge(L, S, 64);
    nj_host_call(L, S, &request);
    return 0;
}

// MARK: The table

void nj_open_text(lua_State *L, lua_CFunction now); // text.c: base64, glob, cidr, time

static void set_with_number(lua_State *L, const char *name, lua_CFunction function, int number) {
    lua_pushinteger(L, number);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
}

void nj_open_library(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"copy", copy}, {"array", array}, {"object", object}, {"uuid", uuid}, {"hmac_sha256", hmac_sha256}, {"get", get},
        {NULL, NULL}};
    static const luaL_Reg json[] = {{"encode", json_encode}, {"decode", json_decode}, {NULL, NULL}};
    static const luaL_Reg password[] = {{"hash", password_hash}, {"verify", password_verify}, {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_pushlightuserdata(L, (void *)(uintptr_t)NJ_HANDLE_DELETE);
    lua_setfield(L, -2, "delete");
    set_with_number(L, "sha1", digest, NJ_HOST_SHA1);
    set_with_number(L, "sha256", digest, NJ_HOST_SHA256);

    lua_createtable(L, 0, 4);
    set_with_number(L, "debug", log_at_level, 0);
    set_with_number(L, "info", log_at_level, 1);
    set_with_number(L, "warn", log_at_level, 2);
    set_with_number(L, "error", log_at_level, 3);
    nj_make_layer(L);
    lua_setfield(L, -2, "log");
    luaL_newlib(L, json);
    nj_make_layer(L);
    lua_setfield(L, -2, "json");
    luaL_newlib(L, password);
    nj_make_layer(L);
    lua_setfield(L, -2, "password");
    lua_createtable(L, 0, 2);
    set_with_number(L, "count", metric, 0);
    set_with_number(L, "gauge", metric, 1);
    nj_make_layer(L);
    lua_setfield(L, -2, "metrics");

    nj_open_text(L, time_now); // adds base64, glob, cidr, time

    (void)lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 3);
    lua_pushcfunction(L, state_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, state_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "state");
}
