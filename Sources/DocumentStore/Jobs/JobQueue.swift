import Environment
import Synchronization

/// Jobs of many callers for one or a few workers. Nobody waits in it: a worker without a job is idle, and the next push wakes it.
final class JobQueue<Element: Sendable>: Sendable {
    private struct State {
        /// Nil for those that were taken. The last holder of a job lets go what it holds, which may add a job: never here, where
        /// the queue is locked.
        var jobs: [Element?] = []
        /// Index of the first job still waiting; avoids shifting the array at each take.
        var head = 0
        var isClosed = false
        var workers: [any Worker] = []
        /// Numbers of the workers that have found nothing since they were last woken. The last one is woken first: its caches are warm.
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

    /// Adds the worker whose turns take with the number of workers that were there before.
    func add(_ worker: any Worker) {
        let isDue = state.withLock { state in
            state.workers.append(worker)
            if state.head < state.jobs.count { return true }
            state.idle.append(state.workers.count - 1)
            return false
        }
        if isDue { worker.wake() }
    }

    /// False if the queue is closed; the job was not taken then.
    func push(_ job: Element) -> Bool {
        let (isAccepted, idle): (Bool, (any Worker)?) = state.withLock { state in
            if state.isClosed { return (false, nil) }
            state.jobs.append(job)
            return (true, state.idle.popLast().map { state.workers[$0] })
        }
        idle?.wake()
        return isAccepted
    }

    /// Up to `limit` jobs; without any, the worker is idle from now on, and its turn has to end.
    func take(upTo limit: Int, worker: Int) -> [Element] {
        state.withLock { state in
            if state.head == state.jobs.count { state.idle.append(worker) }
            return state.removeFirst(limit)
        }
    }

    /// The next job; without one, the worker is idle from now on, and its turn has to end.
    func next(worker: Int) -> Element? {
        state.withLock { state in
            let job = state.removeFirst()
            if job == nil { state.idle.append(worker) }
            return job
        }
    }

    /// Takes what is there, for a worker that goes on in any case.
    func takeWaiting(upTo limit: Int) -> [Element] { state.withLock { $0.removeFirst(limit) } }

    /// Lets workers without threads of their own do now what waits.
    func runNow() {
        for worker in state.withLock({ $0.workers }) { worker.runNow() }
    }

    /// Refuses later jobs. Those that wait are still done, or let go, which answers that the database is closed; then the workers end. Waits
    /// for that as `Worker.stop` does.
    func close(dropsWaiting: Bool = false) {
        let (workers, dropped) = state.withLock { state in
            state.isClosed = true
            return (state.workers, dropsWaiting ? state.removeFirst(.max) : [])
        }
        _ = consume dropped
        for worker in workers { worker.stop() }
    }

    /// Lets go what waits, which answers that the database is closed: for workers that died.
    func drop() {
        let left = state.withLock { $0.removeFirst(.max) }
        _ = consume left
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }
}
