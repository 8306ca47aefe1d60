// The limits of a call, CPU time and instructions, and the hook that enforces them.
#define _GNU_SOURCE
#include "calls.h"

#include <stdio.h>
#include <time.h>

static int64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t nj_cpu_now(void) { return now(CLOCK_THREAD_CPUTIME_ID); }

// Wall time is read first because it needs no system call and is never less than the thread's CPU time. The first check in a call starts the wall
// clock, the second the CPU clock: a short filter pays for neither.
bool nj_past_deadline(nj_state *S) {
    int64_t wall = now(CLOCK_MONOTONIC);
    if (S->wall_start == 0) {
        S->wall_start = wall;
        return false;
    }
    if (S->cpu_start == 0) {
        S->cpu_start = nj_cpu_now();
        return false;
    }
    return wall - S->wall_start >= S->budget.cpu_nanoseconds
        && nj_cpu_now() - S->cpu_start >= S->budget.cpu_nanoseconds;
}

static void hook(lua_State *L, lua_Debug *ar);

void nj_mark_timeout(lua_State *L, nj_state *S) {
    S->limit = NJ_TIMEOUT;
    if (L != NULL) {
        nj_note_where(L, S);
        // Not only after the hundred instructions that may be left: each may be expensive. Only stores fields.
        lua_sethook(L, hook, LUA_MASKCOUNT, 1);
        S->hook_count = NJ_HOOK_COUNT;
    }
    char text[120];
    int n = S->instructions > S->budget.instructions
        ? snprintf(text, sizeof text, "stopped after %lld instructions", (long long)S->budget.instructions)
        : snprintf(text, sizeof text, "stopped after %lld ms of CPU time", (long long)(S->budget.cpu_nanoseconds / 1000000));
    nj_set_message(S, S->where, text, (size_t)n);
}

int nj_raise_limit(lua_State *L) {
    lua_pushnil(L);
    return lua_error(L);
}

void nj_check_budget(lua_State *L, nj_state *S, int64_t instructions) {
    if (!S->in_call) return;
    S->instructions += instructions;
    if (S->limit == NJ_OK) {
        if (S->instructions <= S->budget.instructions && !nj_past_deadline(S)) return;
        nj_mark_timeout(L, S);
    }
    nj_raise_limit(L);
}

// Once a limit is exhausted, the hook runs at every instruction, so that no error handler can continue.
static void hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    nj_state *S = nj_of(L);
    int count = lua_gethookcount(L);
    if (!S->in_call) return;
    S->instructions += count;
    if (S->limit == NJ_OK) {
        if (S->instructions <= S->budget.instructions && !nj_past_deadline(S)) {
            if (count != NJ_HOOK_COUNT) lua_sethook(L, hook, LUA_MASKCOUNT, NJ_HOOK_COUNT);
            return;
        }
        nj_mark_timeout(L, S);
    }
    if (count != 1) lua_sethook(L, hook, LUA_MASKCOUNT, 1);
    nj_raise_limit(L);
}

// A budget below these is counted from the first instruction on, by a permanent hook.
enum { NJ_LEAST_WATCHED_INSTRUCTIONS = 2000000, NJ_LEAST_WATCHED_NANOSECONDS = 20000000 };

// Called at the beginning of a call that is not inside another one.
void nj_choose_hook(nj_state *S) {
    int count = 0;
    if (S->unlimited) return;
    if (S->budget.instructions < NJ_LEAST_WATCHED_INSTRUCTIONS || S->budget.cpu_nanoseconds < NJ_LEAST_WATCHED_NANOSECONDS
        || !nj_watch_begin(S)) count = NJ_HOOK_COUNT;
    if (__builtin_expect(S->hook_count == count, 1)) return;
    lua_sethook(S->L, count > 0 ? hook : NULL, count > 0 ? LUA_MASKCOUNT : 0, count);
    S->hook_count = count;
}

// Runs in a signal handler. Instructions executed before the hook was set are charged by time, at a tenth of an instruction per nanosecond, so that
// the instruction limit keeps its meaning.
void nj_tick(nj_state *S) {
    if (!S->in_call) return;
    if (++S->ticks < 2) return;
    if (S->ticks == 2) {
        int64_t spent = 2 * (int64_t)NJ_TICK_NANOSECONDS;
        S->instructions += spent / 10;
        if (S->wall_start == 0) S->wall_start = now(CLOCK_MONOTONIC) - spent;
        if (S->cpu_start == 0) S->cpu_start = nj_cpu_now() - spent;
    }
    // Set again at every tick, because a function that was just being entered may miss it. Set for the next instruction, which then restores the
    // count: setting the hook restarts the count, and a hundred expensive instructions may take longer than the time between two ticks.
    lua_sethook(S->running, hook, LUA_MASKCOUNT, 1);
    S->hook_count = NJ_HOOK_COUNT;
}

// Hooks belong to one thread; the one that was running at the tick may not be the last.
void nj_adopt_hook(lua_State *L, nj_state *S) {
    if (S->hook_count != 0 && lua_gethookcount(L) == 0) lua_sethook(L, hook, LUA_MASKCOUNT, NJ_HOOK_COUNT);
}
