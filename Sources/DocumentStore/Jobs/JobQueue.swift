import Environment
import Synchronization

/// Jobs from many callers for one or a few workers. It never blocks a worker: one without a job is idle, and the next push wakes it.
final class JobQueue<Element: Sendable>: Sendable {
    private struct State {
        /// Nil for jobs that were taken. Releasing the last reference to a job may add another job, so that must never happen here, where the queue
        /// is locked.
        var jobs: [Element?] = []
        /// Index of the first job still waiting; avoids shifting the array at each take.
        var head = 0
        var isClosed = false
        var workers: [any Worker] = []
        /// Numbers of the workers that have found nothing since they were last woken. The last one is woken first, because its caches are warm.
        var idle: [Int] = []

        mutating func removeFirst(_ limit: Int) -> [Element] {
            var taken: [Element] = []
            taken.reserveCapacity(min(limit, jobs.count - head))
            while taken.count < limit, let job = removeFirst() { taken.append(job) }
            return taken
        }

        mutating func removeFirst() -> Element? {
            guard head < jobs.count else { return nil }
            let job = jobs[head].take()
            head += 1
            if head == jobs.count || head > 4096 {
                jobs.removeFirst(head)
                head = 0
            }
            return job
        }
    }

    private let state = Mutex(State())

    /// Adds a worker; its turns must pass its number, which is the number of workers added before it.
    func add(_ worker: any Worker) {
        let isDue = state.withLock { state in
            state.workers.append(worker)
            if state.head < state.jobs.count { return true }
            state.idle.append(state.workers.count - 1)
            return false
        }
        if isDue { worker.wake() }
    }

    /// Returns false if the queue is closed, in which case the job was not accepted.
    func push(_ job: Element) -> Bool {
        let (isAccepted, idle): (Bool, (any Worker)?) = state.withLock { state in
            if state.isClosed { return (false, nil) }
            state.jobs.append(job)
            return (true, state.idle.popLast().map { state.workers[$0] })
        }
        idle?.wake()
        return isAccepted
    }

    /// Up to `limit` jobs; if there are none, the worker becomes idle, and its turn has to end.
    func take(upTo limit: Int, worker: Int) -> [Element] {
        state.withLock { state in
            if state.head == state.jobs.count { state.idle.append(worker) }
            return state.removeFirst(limit)
        }
    }

    /// The next job; if there is none, the worker becomes idle, and its turn has to end.
    func next(worker: Int) -> Element? {
        state.withLock { state in
            let job = state.removeFirst()
            if job == nil { state.idle.append(worker) }
            return job
        }
    }

    /// Takes waiting jobs, for a worker that continues in any case.
    func takeWaiting(upTo limit: Int) -> [Element] { state.withLock { $0.removeFirst(limit) } }

    /// Lets workers without threads of their own run the waiting jobs now.
    func runNow() {
        for worker in state.withLock({ $0.workers }) { worker.runNow() }
    }

    /// Refuses later jobs. Waiting jobs are still run, or dropped, which answers that the database is closed; then the workers end. Waits for that as
    /// `Worker.stop` does.
    func close(dropsWaiting: Bool = false) {
        let (workers, dropped) = state.withLock { state in
            state.isClosed = true
            return (state.workers, dropsWaiting ? state.removeFirst(.max) : [])
        }
        _ = consume dropped
        for worker in workers { worker.stop() }
    }

    /// Drops the waiting jobs, which answers that the database is closed: for workers that died.
    func drop() {
        let left = state.withLock { $0.removeFirst(.max) }
        _ = consume left
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }
}
