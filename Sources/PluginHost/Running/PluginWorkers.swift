import Environment
import Synchronization

/// Work for a plugin worker. Run by one worker at a time; may be handed to another one between two turns.
protocol PluginJob: AnyObject, Sendable {
    /// Jobs with the same number wait in one line; the lines take turns.
    var line: Int { get }
    /// Works until done or until the monotonic time `deadline`; false if something is left.
    func run(on worker: PluginWorker, until deadline: UInt64) -> Bool
    /// Answers without having run.
    func refuse(_ error: PluginError)
}

/// The workers that run plugins and the jobs that wait for them. Each plugin has its own line and the lines take turns, so that
/// a slow plugin delays the others by one turn at most.
final class PluginWorkers: Sendable {
    private struct State {
        var lines: [Int: Line] = [:]
        /// Lines with waiting jobs, the next one first.
        var turns: [Int] = []
        var waiting = 0
        /// How often all workers were asked to drop states that are no longer in use.
        var sweeps = 0
        var isClosed = false
        var workers: [any Worker] = []
        /// Workers that found nothing to do; the one that came last has its memory in the caches.
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
        /// A job that has been taken leaves nil: nothing may be released under the lock, because the end of a job may be the end of a
        /// version, which asks for a sweep.
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
                // Confined to its worker: turns come one after the other.
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

    /// What one worker keeps from turn to turn.
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

    /// Makes every worker drop the states of versions that nothing refers to any more.
    func sweep() {
        let idle = state.withLock { state in
            state.sweeps += 1
            defer { state.idle = [] }
            return state.isClosed ? [] : state.idle.map { state.workers[$0] }
        }
        for worker in idle { worker.wake() }
    }

    /// Refuses what waits and waits for what runs. Idempotent; not for an event loop.
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

    /// A turn: runs jobs until none waits.
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

    /// Behind the other lines, but first in its own.
    private func putBack(_ job: any PluginJob) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.putBack(job) }
            return state.isClosed
        }
        if isClosed { job.refuse(.hostStopped) }
    }
}
