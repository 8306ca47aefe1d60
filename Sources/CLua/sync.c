// The functions available to sync: channel, access, role, require_user, require_role, require_access, require_admin, expiry and throw. They are
// globals, as in Sync Gateway, and raise an error outside a sync call.
//
// Errors caused by the document itself (an invalid name, a missing right) reject the write. A rejection stands even if the plugin catches the error
// that carries it.
#include "sync.h"

#include <math.h>

const char nj_key_assigned = 0, nj_key_caller = 0;

enum { NJ_RELATIVE_EXPIRY = 30 * 24 * 3600 }; // numbers up to here count from now, as in Couchbase Server

// MARK: Rejecting

static int reject(lua_State *L, nj_state *S, const char *text, size_t length) {
    struct nj_sync *sync = S->sync;
    if (!sync->rejected) {
        sync->rejected = true;
        if (nj_is_utf8((const uint8_t *)text, length)) {
            if (length > sizeof sync->reason) {
                length = sizeof sync->reason;
                while (length > 0 && ((uint8_t)text[length] & 0xC0) == 0x80) length--;
            }
            for (size_t i = 0; i < length; i++) sync->reason[i] = (uint8_t)text[i] < 0x20 || text[i] == 0x7F ? ' ' : text[i];
            sync->reason_length = length;
        } else {
            sync->reason_length = nj_escape_line(text, length, sync->reason, sizeof sync->reason);
        }
    }
    lua_pushliteral(L, "rejected: ");
    lua_pushlstring(L, sync->reason, sync->reason_length);
    lua_concat(L, 2);
    return lua_error(L);
}

static int reject_name(lua_State *L, nj_state *S, const char *what, int index) {
    lua_pushfstring(L, "illegal %s ", what);
    int top = lua_gettop(L);
    if (lua_type(L, index) == LUA_TSTRING) {
        size_t length;
        const char *bytes = lua_tolstring(L, index, &length);
        char shown[80];
        size_t used = nj_escape_line(bytes, length, shown, sizeof shown);
        lua_pushliteral(L, "\"");
        lua_pushlstring(L, shown, used);
        lua_pushliteral(L, "\"");
        lua_concat(L, 3);
    } else {
        lua_pushfstring(L, "(a %s)", luaL_typename(L, index));
    }
    lua_concat(L, lua_gettop(L) - top + 1);
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    return reject(L, S, text, length);
}

// The running sync call; raises an error outside of one, and again after a rejection.
static nj_state *in_sync(lua_State *L) {
    nj_state *S = nj_of(L);
    if (S->sync == NULL) luaL_error(L, "%s() can only be called while sync runs", lua_tostring(L, lua_upvalueindex(1)));
    if (S->sync->rejected) reject(L, S, "", 0);
    return S;
}

// MARK: Names

static bool is_channel(const char *text, size_t length) {
    if (length == 0 || length > NJ_MAX_SYNC_NAME) return false;
    if (length == 1 && (*text == '*' || *text == '!')) return true;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = (uint8_t)text[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
        if (!word && (c == 0 || strchr("-+=/_.@", c) == NULL)) return false;
    }
    return nj_is_utf8((const uint8_t *)text, length);
}

static bool is_principal(const char *text, size_t length) {
    if (length == 0 || length > NJ_MAX_SYNC_NAME) return false;
    for (size_t i = 0; i < length; i++) {
        if ((uint8_t)text[i] < 0x20 || text[i] == 0x7F) return false;
    }
    return nj_is_utf8((const uint8_t *)text, length);
}

// Pushes the names in the argument as a plain sequence: a text, a list of texts, or nil and null for none.
static void push_names(lua_State *L, nj_state *S, int argument, const char *what) {
    luaL_checkstack(L, 8, what);
    int type = lua_type(L, argument);
    if (type == LUA_TNONE || type == LUA_TNIL
        || (type == LUA_TLIGHTUSERDATA && (uint64_t)(uintptr_t)lua_touserdata(L, argument) == NJ_HANDLE_NULL)) {
        lua_newtable(L);
        return;
    }
    if (type == LUA_TSTRING) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, argument);
        lua_rawseti(L, -2, 1);
        return;
    }
    if (nj_is_document(L, argument)) nj_copy(L, argument);
    else if (nj_is_readonly(L, argument)) nj_push_readonly_table(L, argument);
    else if (type == LUA_TTABLE) lua_pushvalue(L, argument);
    else reject_name(L, S, what, argument);
    int list = lua_gettop(L);
    lua_Unsigned length = lua_rawlen(L, list), count = 0;
    if (length > NJ_MAX_SYNC_ENTRIES) {
        lua_pushfstring(L, "more than sync_entries (%d) names in one list", NJ_MAX_SYNC_ENTRIES);
        size_t size;
        const char *text = lua_tolstring(L, -1, &size);
        reject(L, S, text, size);
    }
    lua_pushnil(L);
    while (lua_next(L, list)) {
        nj_charge(L, S, 1);
        // An object is no list of names, whatever its values are.
        bool isEntry = lua_type(L, -2) == LUA_TNUMBER && ++count <= length;
        if (!isEntry || lua_type(L, -1) != LUA_TSTRING) reject_name(L, S, what, isEntry ? lua_gettop(L) : argument);
        lua_pop(L, 1);
    }
}

static const char *name_at(lua_State *L, int list, lua_Unsigned i, size_t *length) {
    lua_rawgeti(L, list, (lua_Integer)i);
    return lua_tolstring(L, -1, length);
}

static bool has_role_prefix(const char *text, size_t length) { return length > 5 && memcmp(text, "role:", 5) == 0; }

// The name on top, without a leading "role:".
static void strip_role_prefix(lua_State *L) {
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (!has_role_prefix(text, length)) return;
    lua_pushlstring(L, text + 5, length - 5);
    lua_replace(L, -2);
}

// MARK: Assigning

// Pushes a field of the assignments.
static void push_assigned(lua_State *L, const char *field) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
    lua_pushstring(L, field);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

// Adds the name on top to the list below it, unless it is there; pops the name.
static void add_once(lua_State *L, nj_state *S) {
    int list = lua_gettop(L) - 1;
    lua_Unsigned length = lua_rawlen(L, list);
    nj_charge(L, S, length / 4 + 1);
    for (lua_Unsigned i = 1; i <= length; i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        bool same = lua_rawequal(L, -1, list + 1);
        lua_pop(L, 1);
        if (same) {
            lua_pop(L, 1);
            return;
        }
    }
    if (++S->sync->entries > NJ_MAX_SYNC_ENTRIES) {
        lua_pushfstring(L, "the document has more than sync_entries (%d) channels and grants", NJ_MAX_SYNC_ENTRIES);
        size_t size;
        const char *text = lua_tolstring(L, -1, &size);
        reject(L, S, text, size);
    }
    lua_rawseti(L, list, (lua_Integer)length + 1);
}

static int sync_channel(lua_State *L) {
    nj_state *S = in_sync(L);
    int arguments = lua_gettop(L);
    push_assigned(L, "channels");
    int channels = lua_gettop(L);
    for (int argument = 1; argument <= arguments; argument++) {
        push_names(L, S, argument, "channel name");
        int list = lua_gettop(L);
        lua_Unsigned count = lua_rawlen(L, list);
        for (lua_Unsigned i = 1; i <= count; i++) {
            lua_pushvalue(L, channels);
            size_t length;
            const char *name = name_at(L, list, i, &length);
            if (!is_channel(name, length)) reject_name(L, S, "channel name", lua_gettop(L));
            if (length == 1 && *name == '*') lua_pop(L, 1); // every document is in it
            else add_once(L, S);
            lua_settop(L, list);
        }
        lua_settop(L, channels);
    }
    return 0;
}

// access(users, channels), role(users, roles)
static int grant(lua_State *L, const char *field, bool isRole) {
    nj_state *S = in_sync(L);
    lua_settop(L, 2);
    push_names(L, S, 1, "user name");                            // 3
    push_names(L, S, 2, isRole ? "role name" : "channel name"); // 4
    push_assigned(L, field);                                     // 5
    lua_Unsigned users = lua_rawlen(L, 3), count = lua_rawlen(L, 4);
    for (lua_Unsigned u = 1; u <= users && count > 0; u++) {
        size_t length;
        const char *user = name_at(L, 3, u, &length);            // 6
        bool isForRole = has_role_prefix(user, length);
        if (!is_principal(user, length) || (isForRole && isRole)) reject_name(L, S, "user name", 6);
        lua_pushvalue(L, 6);
        if (lua_rawget(L, 5) == LUA_TNIL) {                      // 7
            lua_pop(L, 1);
            lua_newtable(L);
            nj_push_marker(L, true);
            lua_setmetatable(L, -2);
            lua_pushvalue(L, 6);
            lua_pushvalue(L, 7);
            lua_rawset(L, 5);
        }
        for (lua_Unsigned i = 1; i <= count; i++) {
            const char *name = name_at(L, 4, i, &length);        // 8
            if (isRole) {
                strip_role_prefix(L);
                name = lua_tolstring(L, 8, &length);
            }
            if (isRole ? !is_principal(name, length) : !is_channel(name, length))
                reject_name(L, S, isRole ? "role name" : "channel name", 8);
            add_once(L, S);
            lua_settop(L, 7);
        }
        lua_settop(L, 5);
    }
    return 0;
}

static int sync_access(lua_State *L) { return grant(L, "access", false); }
static int sync_role(lua_State *L) { return grant(L, "roles", true); }

static int sync_expiry(lua_State *L) {
    nj_state *S = in_sync(L);
    lua_settop(L, 1);
    if (lua_isnil(L, 1) || (lua_islightuserdata(L, 1) && lua_touserdata(L, 1) == NULL)) return 0;
    if (lua_type(L, 1) == LUA_TSTRING && !lua_isnumber(L, 1)) {
        lua_pushcfunction(L, nj_time_parse);
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        if (lua_isnil(L, 2)) reject_name(L, S, "expiry", 1);
        lua_replace(L, 1);
    } else if (!lua_isnumber(L, 1)) {
        reject_name(L, S, "expiry", 1);
    }
    lua_Number seconds = ceil(lua_tonumber(L, 1));
    if (!(seconds >= 0 && seconds < 253402300800.0)) {
        static const char text[] = "an expiry lies between now and the year 9999";
        reject(L, S, text, sizeof text - 1);
    }
    if (seconds > 0 && seconds <= NJ_RELATIVE_EXPIRY) {
        nj_request request = {.operation = NJ_HOST_NOW};
        nj_host_call(L, S, &request);
        seconds += floor(S->reply.number);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_assigned);
    if (seconds > 0) lua_pushinteger(L, (lua_Integer)seconds);
    else lua_pushnil(L);
    lua_setfield(L, -2, "expiry");
    return 0;
}

// MARK: Requiring

static bool is_admin(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_caller);
    lua_pushliteral(L, "is_admin");
    lua_rawget(L, -2);
    bool is = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return is;
}

// Does the caller have one of the names in the argument in this field: as its name, or among its roles or channels?
static int require(lua_State *L, const char *field, const char *what, const char *reason) {
    nj_state *S = in_sync(L);
    lua_settop(L, 1);
    if (is_admin(L)) return 0;
    push_names(L, S, 1, what); // 2
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_caller);
    lua_pushstring(L, field);
    lua_rawget(L, -2);
    lua_replace(L, -2);
    bool isRole = strcmp(field, "roles") == 0;
    if (!lua_istable(L, 3)) { // the name, or nil
        lua_createtable(L, 1, 0);
        lua_insert(L, 3);
        lua_rawseti(L, 3, 1);
    }
    lua_Unsigned wanted = lua_rawlen(L, 2), held = lua_rawlen(L, 3);
    for (lua_Unsigned i = 1; i <= wanted; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i); // 4
        if (isRole) strip_role_prefix(L);
        nj_charge(L, S, held / 4 + 1);
        for (lua_Unsigned k = 1; k <= held; k++) {
            lua_rawgeti(L, 3, (lua_Integer)k);
            if (lua_rawequal(L, 4, 5)) return 0;
            lua_settop(L, 4);
        }
        lua_settop(L, 3);
    }
    return reject(L, S, reason, strlen(reason));
}

static int require_user(lua_State *L) { return require(L, "name", "user name", "wrong user"); }
static int require_role(lua_State *L) { return require(L, "roles", "role name", "missing role"); }
static int require_access(lua_State *L) { return require(L, "channels", "channel name", "missing channel access"); }

static int require_admin(lua_State *L) {
    nj_state *S = in_sync(L);
    static const char reason[] = "only the agent itself may write this";
    return is_admin(L) ? 0 : reject(L, S, reason, sizeof reason - 1);
}

// throw("reason"), or Sync Gateway's throw{ forbidden = "reason" }
static int sync_throw(lua_State *L) {
    nj_state *S = in_sync(L);
    lua_settop(L, 1);
    if (lua_istable(L, 1)) {
        lua_pushliteral(L, "forbidden");
        lua_rawget(L, 1);
        lua_replace(L, 1);
    }
    if (lua_type(L, 1) != LUA_TSTRING) return luaL_error(L, "throw() needs a reason: a text, or { forbidden = text }");
    size_t length;
    const char *text = lua_tolstring(L, 1, &length);
    return reject(L, S, text, length);
}

void nj_open_sync(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"channel", sync_channel}, {"access", sync_access}, {"role", sync_role}, {"require_user", require_user},
        {"require_role", require_role}, {"require_access", require_access}, {"require_admin", require_admin},
        {"expiry", sync_expiry}, {"throw", sync_throw}, {NULL, NULL}};
    for (const luaL_Reg *f = functions; f->name != NULL; f++) {
        lua_pushstring(L, f->name);
        lua_pushcclosure(L, f->func, 1);
        lua_setfield(L, -2, f->name);
    }
}
