import Glibc

/// A value behind a lock, with a condition to wait for: Swift's `Mutex` has no condition variable.
///
/// Unchecked: the value is accessed only while the lock is held.
package final class Monitor<Value>: @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    package init(_ value: sending Value) {
        self.value = value
        pthread_mutex_init(lock, nil)
        pthread_cond_init(changed, nil)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(lock)
        changed.deallocate()
        lock.deallocate()
    }

    /// Changes the value; `body` returns true if a waiting thread should examine it.
    package func change(_ body: (inout Value) -> Bool) {
        pthread_mutex_lock(lock)
        if body(&value) { pthread_cond_signal(changed) }
        pthread_mutex_unlock(lock)
    }

    package func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body(&value)
    }

    /// Waits until `body` returns a result; it is called at once and after each change. Only one thread may wait at a time.
    package func wait<Result>(_ body: (inout Value) -> Result?) -> Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while true {
            if let result = body(&value) { return result }
            pthread_cond_wait(changed, lock)
        }
    }
}
