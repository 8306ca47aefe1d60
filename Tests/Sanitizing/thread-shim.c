// Loaded before all other libraries in runs under ThreadSanitizer (Tests/run --sanitize thread): what it has to be told.
//
// Swift's Mutex is an atomic number on its fast path, which is inlined and which the sanitizer sees. When two threads meet, the rest
// happens in libswiftSynchronization, which is not instrumented, and in the kernel (FUTEX_LOCK_PI): the sanitizer sees that a
// thread reads what another wrote and nothing between them, and reports a race where there is a lock. These two functions stand in front of the
// library's, tell of the lock, and call them. So no report has to be suppressed, and races beside a Mutex are still found.
//
// Lua leaves functions by longjmp. Debian's liblua calls it by its checking name, which the sanitizer does not know: it believes the functions that
// were left to be still there, and fails when there are 65,536 of them, after as many errors or yields.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

// Absent in programs that the tests start and that are not instrumented.
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

static void *real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

// Synchronization._MutexHandle._lockSlow(_: UInt32)
SWIFT void lock_slow(uint32_t thread, SELF void *self) __asm__("$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
SWIFT void lock_slow(uint32_t thread, SELF void *self) {
    ((SWIFT void (*)(uint32_t, SELF void *))real("$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"))(thread, self);
    if (__tsan_acquire) __tsan_acquire(self);
}

// Synchronization._MutexHandle._unlockSlow()
SWIFT void unlock_slow(SELF void *self) __asm__("$s15Synchronization12_MutexHandleV11_unlockSlowyyF");
SWIFT void unlock_slow(SELF void *self) {
    if (__tsan_release) __tsan_release(self);
    ((SWIFT void (*)(SELF void *))real("$s15Synchronization12_MutexHandleV11_unlockSlowyyF"))(self);
}

void __longjmp_chk(jmp_buf place, int value) { longjmp(place, value); }
