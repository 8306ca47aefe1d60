import Glibc

/// A thread of our own, for work that blocks.
struct Thread: Sendable {
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
    init(name: String, _ body: @escaping @Sendable () -> Void) throws(StoreError) {
        let start = Unmanaged.passRetained(Start(name, body))
        var id = pthread_t()
        let status = pthread_create(&id, nil, { argument in
            guard let argument else { return nil }
            let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
            Thread.nameThisThread(start.name)
            start.body()
            return nil
        }, start.toOpaque())
        guard status == 0 else {
            start.release()
            throw .database(code: status, message: "cannot start a thread: \(String(cString: strerror(status)))", sql: "")
        }
        self.id = id
    }

    /// Swift does not see pthread_setname_np, so the name goes the way of the file system.
    private static func nameThisThread(_ name: String) {
        let descriptor = Glibc.open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = Glibc.write(descriptor, name, min(name.utf8.count, 15))
        Glibc.close(descriptor)
    }

    /// Waits for the end. A thread that would wait for itself is let go instead.
    func join() {
        if pthread_equal(id, pthread_self()) != 0 {
            pthread_detach(id)
        } else {
            pthread_join(id, nil)
        }
    }
}
