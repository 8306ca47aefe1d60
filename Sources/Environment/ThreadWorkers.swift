/// A worker pool of threads.
package struct ThreadWorkers: WorkerPool {
    package init() {}

    package var hasThreads: Bool { true }

    package func start(
        name: String, stackBytes: Int?, _ turn: @escaping @Sendable () -> Void
    ) throws(ThreadError) -> any Worker {
        let worker = ThreadWorker()
        try worker.start(name: name, stackBytes: stackBytes, turn)
        return worker
    }

    package func runOnce(name: String, stackBytes: Int?, _ body: @escaping @Sendable () -> Void) throws(ThreadError) {
        try Thread(name: name, stackBytes: stackBytes, body).detach()
    }
}

/// A thread that sleeps on a condition variable between its turns.
private final class ThreadWorker: Worker {
    private struct State {
        var isWoken = false
        var isStopping = false
        var thread: Thread?
    }

    private let state = Monitor(State())

    func start(name: String, stackBytes: Int?, _ turn: @escaping @Sendable () -> Void) throws(ThreadError) {
        let state = state
        let thread = try Thread(name: name, stackBytes: stackBytes) {
            while state.wait({ Self.next(&$0) }) { turn() }
        }
        state.withLock { $0.thread = thread }
    }

    /// Whether a turn is due (true) or the end (false); nil if neither is.
    private static func next(_ state: inout State) -> Bool? {
        if state.isWoken {
            state.isWoken = false
            return true
        }
        return state.isStopping ? false : nil
    }

    func wake() {
        state.change { state in
            defer { state.isWoken = true }
            return !state.isWoken
        }
    }

    func runNow() {}

    func stop() {
        var thread: Thread?
        state.change { state in
            state.isStopping = true
            thread = state.thread
            state.thread = nil
            return true
        }
        thread?.join()
    }
}
