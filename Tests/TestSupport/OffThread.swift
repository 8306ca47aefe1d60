import Glibc

/// Runs blocking work on a thread of its own, so that tests that wait do not take threads from tests that could run.
package func offThread<T: Sendable>(_ work: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        detached { continuation.resume(with: Result { try work() }) }
    }
}

/// Starts a thread and does not wait for it.
func detached(_ work: @escaping @Sendable () -> Void) {
    final class Box {
        let work: @Sendable () -> Void
        init(_ work: @escaping @Sendable () -> Void) { self.work = work }
    }
    let box = Unmanaged.passRetained(Box(work))
    var thread = pthread_t()
    let failure = pthread_create(
        &thread, nil,
        { context in
            guard let context else { return nil }
            Unmanaged<Box>.fromOpaque(context).takeRetainedValue().work()
            return nil
        }, box.toOpaque())
    if failure == 0 {
        pthread_detach(thread)
    } else {
        box.takeRetainedValue().work()
    }
}
