import Glibc

/// Work for a plugin thread. Run by one worker at a time; may be handed to another one between two turns.
protocol PluginJob: AnyObject, Sendable {
    /// Jobs with the same number wait in one line; the lines take turns.
    var line: Int { get }
    /// Works until done or until the monotonic time `deadline`; false if something is left.
    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool
    /// Answers without having run.
    func refuse(_ error: PluginError)
}

/// The plugin threads and the jobs that wait for them. Each plugin has its own line and the lines take turns, so that a
/// slow plugin delays the others by one turn at most.
///
/// Unchecked: everything mutable is accessed while holding `lock`. Swift's `Mutex` has no condition variable to wait on, hence
/// pthread's.
final class WorkerPool: @unchecked Sendable {
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let arrived = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private let limits: PluginHostLimits
    private var lines: [Int: Line] = [:]
    /// Lines with waiting jobs, the next one first.
    private var turns: [Int] = []
    private var waiting = 0
    private var sweeps = 0
    private var isClosed = false
    private var threads: [PluginThread] = []

    private struct Line {
        /// A job that has been taken leaves nil: nothing may be released under the lock, because the end of a job may be the end of a
        /// version, which asks for a sweep.
        var jobs: [(any PluginJob)?] = []
        var head = 0
    }

    init(_ limits: PluginHostLimits) throws(PluginError) {
        self.limits = limits
        pthread_mutex_init(lock, nil)
        pthread_cond_init(arrived, nil)
        for number in 1...max(1, limits.workers) {
            let thread = try PluginThread(name: "plugin-\(number)", stackBytes: limits.stackBytes) { [self] in work() }
            threads.append(thread)
        }
    }

    deinit {
        pthread_cond_destroy(arrived)
        pthread_mutex_destroy(lock)
        arrived.deallocate()
        lock.deallocate()
    }

    func submit(_ job: some PluginJob) {
        pthread_mutex_lock(lock)
        let refusal: PluginError? = isClosed ? .hostStopped
            : waiting >= limits.queuedCalls ? .limit(name: "queued calls", limit: limits.queuedCalls, plugin: "") : nil
        if refusal == nil {
            enqueue(job)
            pthread_cond_signal(arrived)
        }
        pthread_mutex_unlock(lock)
        if let refusal { job.refuse(refusal) }
    }

    /// Makes every worker drop the states of versions that nothing refers to any more.
    func sweep() {
        pthread_mutex_lock(lock)
        sweeps += 1
        pthread_cond_broadcast(arrived)
        pthread_mutex_unlock(lock)
    }

    /// Refuses what waits and waits for what runs. Idempotent; not for an event loop.
    func close() {
        pthread_mutex_lock(lock)
        isClosed = true
        let left = lines.values.flatMap { $0.jobs[$0.head...].compactMap { $0 } }
        lines = [:]
        turns = []
        waiting = 0
        let running = threads
        threads = []
        pthread_cond_broadcast(arrived)
        pthread_mutex_unlock(lock)
        for job in left { job.refuse(.hostStopped) }
        for thread in running { thread.join() }
    }

    // MARK: On the workers

    private func work() {
        let worker = PluginWorker(limits)
        var seenSweeps = 0
        while true {
            pthread_mutex_lock(lock)
            while turns.isEmpty && !isClosed && seenSweeps == sweeps { pthread_cond_wait(arrived, lock) }
            let mustSweep = seenSweeps != sweeps
            seenSweeps = sweeps
            let job = nextJob()
            let closed = isClosed
            pthread_mutex_unlock(lock)

            if mustSweep { worker.sweep() }
            guard let job else {
                if closed { return }
                continue
            }
            let deadline = monotonicNanoseconds() + UInt64(limits.turnMilliseconds) * 1_000_000
            if !job.run(on: worker, until: deadline) { putBack(job) }
        }
    }

    /// Behind the other lines, but first in its own.
    private func putBack(_ job: any PluginJob) {
        pthread_mutex_lock(lock)
        let closed = isClosed
        if !closed {
            if lines[job.line] == nil { turns.append(job.line) }
            var line = lines[job.line] ?? Line()
            line.jobs.removeFirst(line.head)
            line.head = 0
            line.jobs.insert(job, at: 0)
            lines[job.line] = line
            waiting += 1
        }
        pthread_mutex_unlock(lock)
        if closed { job.refuse(.hostStopped) }
    }

    private func enqueue(_ job: any PluginJob) {
        if lines[job.line] == nil { turns.append(job.line) }
        lines[job.line, default: Line()].jobs.append(job)
        waiting += 1
    }

    private func nextJob() -> (any PluginJob)? {
        guard !turns.isEmpty else { return nil }
        let number = turns.removeFirst()
        guard var line = lines.removeValue(forKey: number) else { return nil }
        let job = line.jobs[line.head]
        line.jobs[line.head] = nil
        line.head += 1
        waiting -= 1
        if line.head < line.jobs.count {
            if line.head > 64 {
                line.jobs.removeFirst(line.head)
                line.head = 0
            }
            lines[number] = line
            turns.append(number)
        }
        return job
    }
}
