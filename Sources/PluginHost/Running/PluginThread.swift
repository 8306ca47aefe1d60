import Glibc

/// A thread with a stack large enough for Lua.
struct PluginThread: Sendable {
    private let id: pthread_t

    private final class Start {
        let name: String
        let body: @Sendable () -> Void
        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// - Parameter name: shown by `top -H` and debuggers; the kernel keeps 15 bytes.
    init(name: String, stackBytes: Int, _ body: @escaping @Sendable () -> Void) throws(PluginError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        var status = pthread_attr_setstacksize(&attributes, max(stackBytes, 1 << 20))
        var id = pthread_t()
        if status == 0 {
            let start = Unmanaged.passRetained(Start(name, body))
            status = pthread_create(&id, &attributes, { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                nameThisThread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
            if status != 0 { start.release() }
        }
        guard status == 0 else { throw .system("cannot start a plugin thread: \(String(cString: strerror(status)))") }
        self.id = id
    }

    /// Waits for the end. A thread that would wait for itself is let go instead.
    func join() {
        if pthread_equal(id, pthread_self()) != 0 {
            pthread_detach(id)
        } else {
            pthread_join(id, nil)
        }
    }

    /// Lets it end on its own.
    func detach() { pthread_detach(id) }

    /// Runs `body` once on a thread of its own and waits without blocking the caller's executor.
    static func run<Result: Sendable>(
        name: String, stackBytes: Int, _ body: @escaping @Sendable () -> Result
    ) async throws(PluginError) -> Result {
        let outcome: Swift.Result<Result, PluginError> = await withCheckedContinuation { continuation in
            do throws(PluginError) {
                try PluginThread(name: name, stackBytes: stackBytes) { continuation.resume(returning: .success(body())) }.detach()
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        return try outcome.get()
    }
}

/// What `pthread_setname_np` does, which the Glibc module does not show.
private func nameThisThread(_ name: String) {
    let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    let bytes = Array(name.utf8)
    _ = write(file, bytes, bytes.count)
    close(file)
}

/// Nanoseconds of a clock that never goes back.
@inline(__always)
func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Processor time of this thread.
func threadNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
