// The four functions of `os`.
#define _GNU_SOURCE
#include "internal.h"

#include <math.h>
#include <time.h>

enum { NJ_DATE_FORMAT = 1000 }; // bytes; each conversion costs up to a microsecond

// The clock of nightjar.time.now, which is the host's.
static lua_Integer wall_seconds(lua_State *L) {
    nj_request request = {.operation = NJ_HOST_NOW};
    nj_host_call(L, nj_of(L), &request);
    lua_Number now = floor(nj_of(L)->reply.number);
    lua_Integer seconds;
    return lua_numbertointeger(now, &seconds) ? seconds : 0;
}

static int os_date(lua_State *L) {
    size_t length = 2;
    const char *format = luaL_optlstring(L, 1, "%c", &length);
    luaL_argcheck(L, length <= NJ_DATE_FORMAT, 1, "format longer than 1000 bytes");
    nj_charge(L, nj_of(L), length * 8);
    if (*format == '!') format++;
    if (lua_isnoneornil(L, 2)) { // the stock function would read the machine's clock
        lua_settop(L, 1);
        lua_pushinteger(L, wall_seconds(L));
    }
    lua_pushfstring(L, "!%s", format); // always UTC: the answer must not depend on the machine
    lua_replace(L, 1);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static int date_field(lua_State *L, const char *name, lua_Integer otherwise) {
    lua_pushstring(L, name);
    lua_rawget(L, 1);
    lua_Integer value = otherwise;
    if (!lua_isnil(L, -1)) {
        int exact;
        value = lua_tointegerx(L, -1, &exact);
        if (!exact) return luaL_error(L, "field '%s' is not an integer", name);
    } else if (otherwise == LUA_MININTEGER) {
        return luaL_error(L, "field '%s' missing in date table", name);
    }
    lua_pop(L, 1);
    if (value < -100000000 || value > 100000000) return luaL_error(L, "field '%s' is out of bounds", name);
    return (int)value;
}

static int os_time(lua_State *L) {
    if (lua_isnoneornil(L, 1)) {
        lua_pushinteger(L, wall_seconds(L));
        return 1;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct tm t = {0};
    t.tm_year = date_field(L, "year", LUA_MININTEGER) - 1900;
    t.tm_mon = date_field(L, "month", LUA_MININTEGER) - 1;
    t.tm_mday = date_field(L, "day", LUA_MININTEGER);
    t.tm_hour = date_field(L, "hour", 12);
    t.tm_min = date_field(L, "min", 0);
    t.tm_sec = date_field(L, "sec", 0);
    lua_pushinteger(L, (lua_Integer)timegm(&t));
    return 1;
}

// Expects the stock library on top, and leaves the guarded one above it.
void nj_open_dates(lua_State *L) {
    int stock = lua_gettop(L);
    lua_newtable(L);
    lua_getfield(L, stock, "clock");
    lua_setfield(L, -2, "clock");
    lua_getfield(L, stock, "difftime");
    lua_setfield(L, -2, "difftime");
    lua_getfield(L, stock, "date");
    lua_pushcclosure(L, os_date, 1);
    lua_setfield(L, -2, "date");
    lua_pushcfunction(L, os_time);
    lua_setfield(L, -2, "time");
}
