// A watch for long calls: a timer per thread that measures the thread's own CPU time.
//
// With a count hook set, Lua takes its slow path on every instruction, which costs a short filter more than everything else. So a call begins without
// one, and the timer, which ticks only while its thread works, sets the hook on a call that was found running by two ticks. It does so from a signal
// handler on the same thread, as Lua's own interpreter does for its interrupt key: lua_sethook only stores fields and marks the active functions.
// Without a timer, the hook is set from the beginning.
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

// Ignored by default, and nobody else sends it to a single thread; a stray one has no effect.
#define NJ_TICK_SIGNAL SIGURG

typedef enum { UNTRIED = 0, TICKING, IMPOSSIBLE } watch_kind;

static _Thread_local struct {
    watch_kind kind;
    timer_t timer;
    nj_state *_Atomic in_charge; // its call runs on this thread
} watch;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit_of_thread;
static bool has_handler;

static void on_tick(int number) {
    (void)number;
    int error = errno;
    nj_state *S = atomic_load_explicit(&watch.in_charge, memory_order_relaxed);
    if (S != NULL) nj_tick(S);
    errno = error;
}

static void end_thread(void *unused) {
    (void)unused;
    if (watch.kind == TICKING) timer_delete(watch.timer);
    watch.kind = IMPOSSIBLE;
}

static void set_up(void) {
    struct sigaction now, wanted = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigemptyset(&wanted.sa_mask);
    if (sigaction(NJ_TICK_SIGNAL, NULL, &now) != 0) return;
    // If the process has already set a handler, the signal is left to it.
    if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return;
    if (pthread_key_create(&at_exit_of_thread, end_thread) != 0) return;
    has_handler = sigaction(NJ_TICK_SIGNAL, &wanted, NULL) == 0;
}

#ifdef __has_feature
#define NJ_HAS(feature) __has_feature(feature)
#else
#define NJ_HAS(feature) 0
#endif

static watch_kind start(void) {
    // ThreadSanitizer defers a signal until the thread calls a function that it intercepts, and a loop in Lua calls none.
    if (NJ_HAS(thread_sanitizer)) return IMPOSSIBLE;
    pthread_once(&once, set_up);
    if (!has_handler) return IMPOSSIBLE;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, NJ_TICK_SIGNAL);
    if (pthread_sigmask(SIG_UNBLOCK, &signals, NULL) != 0) return IMPOSSIBLE;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = NJ_TICK_SIGNAL};
#ifdef sigev_notify_thread_id
    event.sigev_notify_thread_id = gettid();
#else
    event._sigev_un._tid = gettid();
#endif
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &watch.timer) != 0) return IMPOSSIBLE;
    struct itimerspec every = {{0, NJ_TICK_NANOSECONDS}, {0, NJ_TICK_NANOSECONDS}};
    // Without the key's value, the timer would outlive its thread.
    if (pthread_setspecific(at_exit_of_thread, &watch) != 0 || timer_settime(watch.timer, 0, &every, NULL) != 0) {
        timer_delete(watch.timer);
        return IMPOSSIBLE;
    }
    return TICKING;
}

bool nj_watch_begin(nj_state *S) {
    if (__builtin_expect(watch.kind != TICKING, 0)) {
        if (watch.kind == UNTRIED) watch.kind = start();
        if (watch.kind != TICKING) return false;
    }
    // A call of one state may run inside a call of another, through a host function: then the inner one is watched, and the outer one again after it.
    S->watched_before = atomic_load_explicit(&watch.in_charge, memory_order_relaxed);
    atomic_store_explicit(&watch.in_charge, S, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); // the handler runs on this thread: only the compiler must preserve the order
    return true;
}

void nj_watch_end(nj_state *S) {
    // Not being watched: its hook is set, and another state may be watched.
    if (atomic_load_explicit(&watch.in_charge, memory_order_relaxed) != S) return;
    atomic_store_explicit(&watch.in_charge, S->watched_before, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    S->watched_before = NULL;
}
