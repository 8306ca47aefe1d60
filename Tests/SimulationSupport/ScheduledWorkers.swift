import Environment

/// Workers whose turns are steps of a scheduler, all on one thread.
///
/// Unchecked: used only on the simulation's one thread.
package final class ScheduledWorkers: WorkerPool, @unchecked Sendable {
    package typealias Step = @Sendable () -> Void

    private let schedule: (_ name: String, _ step: @escaping Step) -> Void
    private var isAbandoned = false
    /// All workers that were started and not stopped, for `abandon`.
    private var workers: [ScheduledWorker] = []

    /// - Parameter schedule: runs the step some time later, never at once. The name is the worker's.
    package init(schedule: @escaping (_ name: String, _ step: @escaping Step) -> Void) { self.schedule = schedule }

    package var hasThreads: Bool { false }

    package func start(name: String, stackBytes: Int?, _ turn: @escaping @Sendable () -> Void) throws(ThreadError) -> any Worker {
        let worker = ScheduledWorker(name, self, turn)
        workers.append(worker)
        return worker
    }

    package func runOnce(name: String, stackBytes: Int?, _ body: @escaping @Sendable () -> Void) throws(ThreadError) {
        schedule(name) { [self] in if !isAbandoned { body() } }
    }

    /// The process has died: no turn runs any more, not even one that is due. Whoever waits for an answer is told that the database
    /// is closed when the database is released.
    package func abandon() {
        isAbandoned = true
        let all = workers
        workers = []
        for worker in all { worker.abandon() }
    }

    fileprivate func schedule(_ worker: ScheduledWorker) {
        schedule(worker.name) { [weak worker] in worker?.runNow() }
    }

    fileprivate func forget(_ worker: ScheduledWorker) { workers.removeAll { $0 === worker } }
}

/// Unchecked: used only on the simulation's one thread.
private final class ScheduledWorker: Worker, @unchecked Sendable {
    let name: String
    private weak var pool: ScheduledWorkers?
    /// Nil once the worker has ended.
    private var turn: (@Sendable () -> Void)?
    private var isWoken = false
    private var isRunning = false
    private var isStopping = false

    init(_ name: String, _ pool: ScheduledWorkers, _ turn: @escaping @Sendable () -> Void) {
        self.name = name
        self.pool = pool
        self.turn = turn
    }

    func wake() {
        guard turn != nil, !isWoken else { return }
        isWoken = true
        if !isRunning { pool?.schedule(self) }
    }

    func runNow() {
        guard isWoken, !isRunning, let turn else { return }
        isWoken = false
        isRunning = true
        turn()
        isRunning = false
        if isStopping {
            if isWoken { runNow() }
            end()
        } else if isWoken {
            pool?.schedule(self)
        }
    }

    func stop() {
        isStopping = true
        if isRunning { return }
        runNow()
        end()
    }

    func abandon() {
        isStopping = true
        if !isRunning { end() }
    }

    private func end() {
        let turn = self.turn
        self.turn = nil
        pool?.forget(self)
        _ = consume turn
    }
}
