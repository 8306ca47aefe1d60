// Undefined global variables: the error, and suggestions of similar names.
#ifndef NJ_GLOBALS_H
#define NJ_GLOBALS_H

#include "internal.h"

enum { NJ_FAR = 99 };

typedef struct {
    const char *name;
    size_t length;
    int distance;     // NJ_FAR: nothing is similar
    char found[40];
} nj_nearest;

int nj_name_distance(const char *a, size_t n, const char *b, size_t m); // NJ_FAR for long names
void nj_seek_nearest(nj_nearest *nearest, const char *name);            // the name must stay valid
void nj_consider_name(nj_nearest *nearest, const char *candidate);
void nj_consider_keys(lua_State *L, nj_nearest *nearest, int table);    // examines some hundreds of them
bool nj_is_left_out(const char *name);                                  // Lua has it elsewhere, and plugins do not have it
void nj_push_undefined(lua_State *L, const nj_nearest *nearest);        // pushes the error's text, without a position

bool nj_raises_undefined(lua_State *L, int base);          // false if the plugin set an __index of its own on the table behind the environment
void nj_set_undefined(lua_State *L, int metatable);        // gives a metatable the __index that raises
void nj_keep_undefined(lua_State *L, int base, int metatable); // before setmetatable(base, metatable or nil)

#endif
