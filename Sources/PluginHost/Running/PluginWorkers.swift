import Environment
import Synchronization

/// Work for a plugin worker. Run by one worker at a time, but possibly by another one in its next turn.
protocol PluginJob: AnyObject, Sendable {
    /// Jobs with the same number share a queue; the queues take turns.
    var line: Int { get }
    /// Works until done or until the monotonic time `deadline`; returns false if something is left.
    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool
    /// Answers without having run.
    func refuse(_ error: PluginError)
}

/// The workers that run plugins, and the jobs waiting for them. Each plugin has its own queue, and a separate one as a candidate; the queues take
/// turns, so that a slow plugin delays the others by at most one turn.
final class PluginWorkers: Sendable {
    private struct State {
        var lines: [Int: Line] = [:]
        /// Queues with waiting jobs, the next one first.
        var turns: [Int] = []
        var waiting = 0
        /// How often all workers were asked to drop unused states.
        var sweeps = 0
        var isClosed = false
        var workers: [any Worker] = []
        /// Idle workers; the one that became idle last still has its memory in the caches.
        var idle: [Int] = []

        mutating func enqueue(_ job: any PluginJob) {
            if lines[job.line] == nil { turns.append(job.line) }
            lines[job.line, default: Line()].jobs.append(job)
            waiting += 1
        }

        mutating func putBack(_ job: any PluginJob) {
            if lines[job.line] == nil { turns.append(job.line) }
            var line = lines[job.line] ?? Line()
            line.jobs.removeFirst(line.head)
            line.head = 0
            line.jobs.insert(job, at: 0)
            lines[job.line] = line
            waiting += 1
        }

        mutating func takeJob() -> (any PluginJob)? {
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

    private struct Line {
        /// A job that has been taken leaves nil behind: nothing may be released under the lock, because releasing a job may release a
        /// version, which requests a sweep.
        var jobs: [(any PluginJob)?] = []
        var head = 0
    }

    private let state = Mutex(State())
    private let limits: PluginHostLimits
    private let time: any TimeSource

    init(_ limits: PluginHostLimits, _ environment: Environment) throws(PluginError) {
        self.limits = limits
        time = environment.time
        do throws(ThreadError) {
            for number in 0..<max(1, limits.workers) {
                // Confined to its worker: turns run one after another.
                nonisolated(unsafe) let place = Place(limits)
                let worker = try environment.workers.start(name: "plugin-\(number + 1)", stackBytes: limits.stackBytes) { [self] in
                    work(number, place)
                }
                state.withLock {
                    $0.workers.append(worker)
                    $0.idle.append(number)
                }
            }
        } catch {
            close()
            throw .system("\(error)")
        }
    }

    /// What one worker keeps between turns.
    private final class Place {
        let worker: PluginWorker
        var seenSweeps = 0

        init(_ limits: PluginHostLimits) { worker = PluginWorker(limits) }
    }

    func submit(_ job: some PluginJob) {
        let (refusal, woken) = state.withLock { state -> (PluginError?, (any Worker)?) in
            if state.isClosed { return (.hostStopped, nil) }
            if state.waiting >= limits.queuedCalls { return (.limit(name: "queued calls", limit: limits.queuedCalls, plugin: ""), nil) }
            state.enqueue(job)
            return (nil, state.idle.popLast().map { state.workers[$0] })
        }
        woken?.wake()
        if let refusal { job.refuse(refusal) }
    }

    /// Makes every worker drop the states of versions that are no longer referenced.
    func sweep() {
        let idle = state.withLock { state in
            state.sweeps += 1
            defer { state.idle = [] }
            return state.isClosed ? [] : state.idle.map { state.workers[$0] }
        }
        for worker in idle { worker.wake() }
    }

    /// Refuses waiting jobs and waits for running ones. Idempotent; must not be called on an event loop.
    func close() {
        let (left, running) = state.withLock { state in
            state.isClosed = true
            let left = state.lines.values.flatMap { $0.jobs[$0.head...].compactMap { $0 } }
            defer { (state.lines, state.turns, state.waiting, state.workers, state.idle) = ([:], [], 0, [], []) }
            return (left, state.workers)
        }
        for job in left { job.refuse(.hostStopped) }
        for worker in running { worker.stop() }
    }

    // MARK: On the workers

    /// Runs jobs until none is waiting.
    private func work(_ number: Int, _ place: Place) {
        while true {
            let (job, sweeps) = state.withLock { state in
                let job = state.takeJob()
                if job == nil, place.seenSweeps == state.sweeps, !state.isClosed { state.idle.append(number) }
                return (job, state.sweeps)
            }
            let mustSweep = place.seenSweeps != sweeps
            place.seenSweeps = sweeps
            if mustSweep { place.worker.sweep() }
            guard let job else {
                if mustSweep { continue }
                return
            }
            let deadline = time.monotonicNanoseconds() + UInt64(limits.turnMilliseconds) * 1_000_000
            if !job.run(on: place.worker, until: deadline) { putBack(job) }
        }
    }

    /// Puts a job at the front of its own queue, which moves behind the others.
    private func putBack(_ job: any PluginJob) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.putBack(job) }
            return state.isClosed
        }
        if isClosed { job.refuse(.hostStopped) }
    }
}
