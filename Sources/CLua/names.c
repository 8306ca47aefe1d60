// Determines from the compiled code which global variables a source reads and assigns, so that a misspelt name is reported when the plugin is loaded
// rather than when the first document reaches that line. If this cannot be determined, nothing is reported: the read itself raises an error later.
#include "calls.h"
#include "globals.h"

static const char key_notes = 0; // registry: the notes below
enum { NJ_READS = 1, NJ_SETS, NJ_LOCALS, NJ_GUESSES, NJ_USES_TABLE, NJ_ASKS_VERSION, NJ_IS_UNSURE };

// Instructions of Lua 5.4; the header of the compiled code is compared before they are relied on.
enum {
    OP_LOADK = 3, OP_LOADKX = 4, OP_GETUPVAL = 9, OP_SETUPVAL = 10, OP_GETTABUP = 11, OP_GETFIELD = 14, OP_SETTABUP = 15,
    OP_SETFIELD = 18, OP_JMP = 56
};

typedef struct {
    lua_State *L;
    nj_state *S;
    const uint8_t *p, *end;
    bool is_broken; // not as expected
    bool reads;     // reads are recorded too
    const char *file;
    int notes;      // stack index
    int base;       // stack index of the table behind the environment
} scan;

typedef struct {
    uint64_t bits[4]; // the upvalues that are the chunk's _ENV
} environments;

static bool holds(const environments *e, unsigned upvalue) { return upvalue < 256 && (e->bits[upvalue >> 6] >> (upvalue & 63) & 1) != 0; }

// MARK: Reading the compiled code

static const uint8_t *take(scan *s, size_t count) {
    if ((size_t)(s->end - s->p) < count) {
        s->is_broken = true;
        s->p = s->end;
    }
    if (s->is_broken) return NULL;
    const uint8_t *p = s->p;
    s->p += count;
    return p;
}

static unsigned take_byte(scan *s) {
    const uint8_t *p = take(s, 1);
    return p == NULL ? 0 : *p;
}

static size_t take_size(scan *s) {
    size_t n = 0;
    for (int i = 0; i < 10 && !s->is_broken; i++) {
        unsigned byte = take_byte(s);
        n = n << 7 | (byte & 0x7F);
        if (byte & 0x80) return n;
    }
    s->is_broken = true;
    return 0;
}

// Absent: length 0 and no bytes.
static nj_bytes take_text(scan *s) {
    size_t size = take_size(s);
    if (size == 0) return (nj_bytes){NULL, 0};
    const uint8_t *p = take(s, size - 1);
    return (nj_bytes){p, p == NULL ? 0 : size - 1};
}

static void take_header(scan *s) {
    static const uint8_t expected[] = {0x1B, 'L', 'u', 'a', 0x54, 0, 0x19, 0x93, '\r', '\n', 0x1A, '\n', 4, 8, 8};
    const uint8_t *p = take(s, sizeof expected + 8 + 8 + 1);
    if (p != NULL && memcmp(p, expected, sizeof expected) != 0) s->is_broken = true;
}

// MARK: Notes

// Adds the text on top, which is popped, to one of the sets.
static void note_name(scan *s, int set) {
    if (lua_type(s->L, -1) != LUA_TSTRING) {
        lua_pop(s->L, 1);
        return;
    }
    lua_rawgeti(s->L, s->notes, set);
    lua_insert(s->L, -2);
    lua_pushboolean(s->L, 1);
    lua_rawset(s->L, -3);
    lua_pop(s->L, 1);
}

static void note_constant(scan *s, int constants, unsigned index, int set) {
    lua_rawgeti(s->L, constants, (lua_Integer)index + 1);
    note_name(s, set);
}

static void note_fact(scan *s, int fact) {
    lua_pushboolean(s->L, 1);
    lua_rawseti(s->L, s->notes, fact);
}

// Appends { name, file, line } to the reads of variables that do not exist.
//
// is_alternative: the read is conditional. `table.unpack or unpack` is typical of modules for several versions of Lua: the second read never happens
// here.
static void note_read(scan *s, int constants, unsigned index, int line, bool is_alternative) {
    lua_State *L = s->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, constants, (lua_Integer)index + 1);
    bool counts = s->reads && lua_type(L, -1) == LUA_TSTRING;
    if (counts) {
        lua_pushvalue(L, -1);
        counts = lua_rawget(L, s->base) == LUA_TNIL && !(is_alternative && nj_is_left_out(lua_tostring(L, -2)));
        lua_pop(L, 1);
    }
    if (!counts) {
        lua_settop(L, top);
        return;
    }
    lua_rawgeti(L, s->notes, NJ_READS);
    lua_createtable(L, 3, 0);
    lua_pushvalue(L, top + 1);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, s->file);
    lua_rawseti(L, -2, 2);
    lua_pushinteger(L, line);
    lua_rawseti(L, -2, 3);
    lua_rawseti(L, top + 2, (lua_Integer)lua_rawlen(L, top + 2) + 1);
    lua_settop(L, top);
}

// MARK: A function

typedef struct {
    const uint8_t *deltas;
    size_t count;
    const uint8_t *absolute;
    size_t absolutes;
} lines;

static void look_at_code(scan *s, const uint8_t *code, size_t count, int constants, const environments *env, size_t first_line, const lines *lines) {
    int64_t line = (int64_t)first_line;
    scan absolute = {.p = lines->absolute, .end = s->end};
    size_t absolutes = lines->absolutes;
    enum { OTHER = 0, TABLE, SETMETATABLE } global = OTHER, before = OTHER; // what this instruction and the previous one loaded
    unsigned register_before = 0;
    bool is_after_jump = false;
    for (size_t i = 0; i < count; i++) {
        if (i < lines->count) {
            int8_t delta = (int8_t)lines->deltas[i];
            if (delta != -128) {
                line += delta;
            } else if (absolutes > 0) {
                take_size(&absolute);
                line = (int64_t)take_size(&absolute);
                absolutes--;
            }
        }
        uint32_t word;
        memcpy(&word, code + i * 4, 4);
        unsigned a = word >> 7 & 0xFF, b = word >> 16 & 0xFF, c = word >> 24;
        global = OTHER;
        switch (word & 0x7F) {
        case OP_GETTABUP:
            if (!holds(env, b)) break;
            note_read(s, constants, c, (int)line, is_after_jump);
            lua_rawgeti(s->L, constants, (lua_Integer)c + 1);
            if (lua_type(s->L, -1) == LUA_TSTRING) {
                const char *name = lua_tostring(s->L, -1);
                if (strcmp(name, "_G") == 0) global = TABLE;
                if (strcmp(name, "setmetatable") == 0) global = SETMETATABLE;
                if (strcmp(name, "_VERSION") == 0) note_fact(s, NJ_ASKS_VERSION);
            }
            lua_pop(s->L, 1);
            if (global == TABLE) note_fact(s, NJ_USES_TABLE);
            if (global == TABLE && before == SETMETATABLE) note_fact(s, NJ_IS_UNSURE); // it may define itself what an undefined variable is
            break;
        case OP_SETTABUP:
            if (holds(env, a)) note_constant(s, constants, b, NJ_SETS);
            break;
        case OP_GETUPVAL: // _ENV as a value
            if (holds(env, b)) note_fact(s, NJ_USES_TABLE);
            break;
        case OP_SETUPVAL: // another _ENV
            if (holds(env, b)) note_fact(s, NJ_IS_UNSURE);
            break;
        // Functions with which a plugin that has the table of globals as a value can assign a variable.
        case OP_GETFIELD:
            if (before == TABLE && b == register_before) note_constant(s, constants, c, NJ_GUESSES);
            break;
        case OP_SETFIELD: note_constant(s, constants, b, NJ_GUESSES); break;
        case OP_LOADK: note_constant(s, constants, word >> 15, NJ_GUESSES); break;
        case OP_LOADKX: note_fact(s, NJ_IS_UNSURE); break;
        default: break;
        }
        before = global;
        register_before = a;
        is_after_jump = (word & 0x7F) == OP_JMP;
    }
}

// parent: NULL for the chunk itself, whose only upvalue is _ENV.
static void look_at_function(scan *s, const environments *parent) {
    lua_State *L = s->L;
    luaL_checkstack(L, 12, "names");
    int top = lua_gettop(L);
    take_text(s);
    size_t first_line = take_size(s);
    take_size(s);
    take(s, 3);
    size_t count = take_size(s);
    if (count > (size_t)(s->end - s->p) / 4) s->is_broken = true;
    const uint8_t *code = take(s, count * 4);
    nj_charge(L, s->S, count);

    size_t constants = take_size(s);
    if (constants > (size_t)(s->end - s->p)) s->is_broken = true;
    if (s->is_broken) return;
    lua_newtable(L);
    for (size_t i = 0; i < constants && !s->is_broken; i++) {
        unsigned type = take_byte(s);
        switch (type) {
        case 0x00: case 0x01: case 0x11: break;
        case 0x03: case 0x13: take(s, 8); break;
        case 0x04: case 0x14: {
            nj_bytes text = take_text(s);
            if (text.bytes == NULL) break;
            lua_pushlstring(L, text.bytes, text.length);
            lua_rawseti(L, top + 1, (lua_Integer)i + 1);
            break;
        }
        default: s->is_broken = true;
        }
    }
    environments env = {{0, 0, 0, 0}};
    size_t upvalues = take_size(s);
    for (size_t i = 0; i < upvalues && !s->is_broken; i++) {
        bool is_local = take_byte(s) != 0;
        unsigned index = take_byte(s);
        take_byte(s);
        if (i < 256 && (parent == NULL ? i == 0 : !is_local && holds(parent, index))) env.bits[i >> 6] |= (uint64_t)1 << (i & 63);
    }
    size_t functions = take_size(s);
    for (size_t i = 0; i < functions && !s->is_broken; i++) look_at_function(s, &env);

    lines where;
    where.count = take_size(s);
    where.deltas = take(s, where.count);
    where.absolutes = take_size(s);
    where.absolute = s->p;
    for (size_t i = 0; i < where.absolutes && !s->is_broken; i++) take_size(s), take_size(s);
    size_t locals = take_size(s);
    for (size_t i = 0; i < locals && !s->is_broken; i++) {
        nj_bytes name = take_text(s);
        take_size(s), take_size(s);
        if (name.bytes == NULL || s->is_broken) continue;
        lua_pushlstring(L, name.bytes, name.length);
        note_name(s, NJ_LOCALS);
    }
    size_t names = take_size(s);
    for (size_t i = 0; i < names && !s->is_broken; i++) take_text(s);
    if (!s->is_broken) look_at_code(s, code, count, top + 1, &env, first_line, &where);
    lua_settop(L, top);
}

// MARK: A source

typedef struct {
    nj_bytes name, source;
    bool reads;
} source;

static int append(lua_State *L, const void *bytes, size_t length, void *buffer) {
    (void)L;
    return nj_buffer_append(buffer, bytes, length) ? 0 : 1;
}

static void push_notes(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_notes) != LUA_TNIL) return;
    lua_pop(L, 1);
    lua_createtable(L, NJ_IS_UNSURE, 0);
    for (int i = NJ_READS; i <= NJ_GUESSES; i++) {
        lua_newtable(L);
        lua_rawseti(L, -2, i);
    }
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_notes);
}

static int note_globals(lua_State *L) {
    nj_state *S = nj_of(L);
    const source *given = lua_touserdata(L, 1);
    push_notes(L);                                             // 2
    lua_pushlstring(L, given->name.bytes, given->name.length); // 3
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_environment); // 4
    if (!nj_push_layer_base(L, 4)) return 0;                // 5
    scan s = {.L = L, .S = S, .reads = given->reads, .file = lua_tostring(L, 3), .notes = 2, .base = 5};
    nj_load_chunk(L, S, given->name, given->source); // 6
    S->scratch.length = 0;
    if (lua_dump(L, append, &S->scratch, 0) != 0) {
        note_fact(&s, NJ_IS_UNSURE);
        return 0;
    }
    s.p = S->scratch.bytes;
    s.end = S->scratch.bytes + S->scratch.length;
    take_header(&s);
    if (!s.is_broken) look_at_function(&s, NULL);
    if (s.is_broken) note_fact(&s, NJ_IS_UNSURE);
    return 0;
}

int nj_note_globals(nj_state *S, nj_bytes name, nj_bytes text, bool reads, const nj_budget *budget) {
    if (!nj_begin(S, budget)) return NJ_LOAD;
    source given = {name, text, reads};
    return nj_end(S, nj_protected(S, note_globals, &given), NJ_LOAD);
}

// MARK: The verdict

static bool is_fact(lua_State *L, int notes, int fact) {
    bool is = lua_rawgeti(L, notes, fact) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

// About the name on top, which stays.
static bool is_in(lua_State *L, int table) {
    lua_pushvalue(L, -1);
    bool is = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

static int check_globals(lua_State *L) {
    push_notes(L);                                                // 2
    lua_rawgetp(L, LUA_REGISTRYINDEX, &nj_key_environment);       // 3
    if (!nj_push_layer_base(L, 3)) return 0;                      // 4
    if (!nj_raises_undefined(L, 4) || is_fact(L, 2, NJ_IS_UNSURE)) return 0;
    lua_pushliteral(L, "pairs");
    bool is_emptied = !is_in(L, 4); // load-time code has removed what it used before
    lua_pop(L, 1);
    if (is_emptied) return 0;
    bool guesses = is_fact(L, 2, NJ_USES_TABLE);
    for (int i = NJ_READS; i <= NJ_GUESSES; i++) lua_rawgeti(L, 2, i); // 5 to 8
    enum { READS = 5, SETS, LOCALS, GUESSES, FOUND, FILE, LINE };
    lua_settop(L, LINE); // the first undefined one: its name, file and line
    lua_Integer count = (lua_Integer)lua_rawlen(L, READS);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, READS, i);
        int read = lua_gettop(L);
        for (int part = 1; part <= 3; part++) lua_rawgeti(L, read, part);
        lua_pushvalue(L, read + 1);
        bool is_defined = (is_fact(L, 2, NJ_ASKS_VERSION) && nj_is_left_out(lua_tostring(L, read + 1))) || is_in(L, 4) || is_in(L, SETS) || (guesses && is_in(L, GUESSES));
        bool is_first = lua_isnil(L, FOUND)
            || (lua_rawequal(L, FILE, read + 2) && lua_tointeger(L, read + 3) < lua_tointeger(L, LINE));
        if (!is_defined && is_first) {
            for (int part = 0; part < 3; part++) lua_copy(L, read + 1 + part, FOUND + part);
        }
        lua_settop(L, LINE);
    }
    if (lua_isnil(L, FOUND)) return 0;
    nj_nearest nearest;
    nj_seek_nearest(&nearest, lua_tostring(L, FOUND));
    nj_consider_keys(L, &nearest, LOCALS);
    nj_consider_keys(L, &nearest, SETS);
    nj_consider_keys(L, &nearest, 4);
    lua_pushfstring(L, "%s:%I: ", lua_tostring(L, FILE), (LUAI_UACINT)lua_tointeger(L, LINE));
    nj_push_undefined(L, &nearest);
    lua_concat(L, 2);
    return lua_error(L);
}

int nj_check_globals(nj_state *S, const nj_budget *budget) {
    if (!nj_begin(S, budget)) return NJ_LOAD;
    return nj_end(S, nj_protected(S, check_globals, NULL), NJ_LOAD);
}
