import Glibc

/// A dedicated thread, for blocking work.
package struct Thread: Sendable {
    private let id: pthread_t

    /// The new thread's start-up data. Unchecked: filled before the thread starts, emptied by that thread.
    private final class Start: @unchecked Sendable {
        let name: String
        private var body: (@Sendable () -> Void)?

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }

        /// Runs the body and releases it, so that what it retains is released on this thread and before it is joined.
        func run() {
            let body = self.body
            self.body = nil
            body?()
        }
    }

    /// Starts the thread.
    /// - Parameters:
    ///   - name: shown by `top -H` and debuggers; the kernel keeps 15 bytes.
    ///   - stackBytes: at least 1 MiB is used; nil for the system's default.
    package init(name: String, stackBytes: Int? = nil, _ body: @escaping @Sendable () -> Void) throws(ThreadError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackBytes {
            let status = pthread_attr_setstacksize(&attributes, max(stackBytes, 1 << 20))
            guard status == 0 else { throw ThreadError(name: name, number: status) }
        }
        let start = Unmanaged.passRetained(Start(name, body))
        var id = pthread_t()
        let status = pthread_create(&id, &attributes, { argument in
            guard let argument else { return nil }
            let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
            Thread.setThreadName(start.name)
            start.run()
            return nil
        }, start.toOpaque())
        guard status == 0 else {
            start.release()
            throw ThreadError(name: name, number: status)
        }
        self.id = id
    }

    /// pthread_setname_np is not visible to Swift, so the name is set through the file system.
    private static func setThreadName(_ name: String) {
        let descriptor = Glibc.open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = Glibc.write(descriptor, name, min(name.utf8.count, 15))
        Glibc.close(descriptor)
    }

    /// Waits for the end. A thread that would wait for itself is detached instead.
    package func join() {
        if pthread_equal(id, pthread_self()) != 0 {
            pthread_detach(id)
        } else {
            pthread_join(id, nil)
        }
    }

    /// Lets it end on its own; it must not be joined afterwards.
    package func detach() { pthread_detach(id) }
}

/// A thread could not be started.
package struct ThreadError: Error, Equatable, CustomStringConvertible {
    /// The thread's name.
    package let name: String
    /// The system's error number.
    package let number: Int32

    package init(name: String, number: Int32) {
        self.name = name
        self.number = number
    }

    package var description: String { "cannot start the thread \"\(name)\": \(String(cString: strerror(number)))" }
}
