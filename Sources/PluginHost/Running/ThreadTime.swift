import Glibc

/// CPU time of this thread in nanoseconds: the limit for a plugin's tests is in CPU time, not elapsed time.
func threadNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
