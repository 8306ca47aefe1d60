import Environment

/// A serial context whose jobs are steps of the scheduler, in the order in which they came.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulatedContext: SerialContext, SerialExecutor, @unchecked Sendable {
    private let scheduler: Scheduler
    private let machine: Int
    /// When the last job that was added is due.
    private var last: UInt64 = 0

    package init(_ scheduler: Scheduler, machine: Int) {
        self.scheduler = scheduler
        self.machine = machine
    }

    package var serialExecutor: any SerialExecutor { self }
    package var isCurrent: Bool { scheduler.current === self }

    package func execute(_ job: @escaping @Sendable () -> Void) { add(.context, job) }
    package func executeAfterIO(_ job: @escaping @Sendable () -> Void) { add(.context, job) }

    @discardableResult
    package func schedule(afterNanoseconds delay: UInt64, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob {
        let timer = SimulatedTimer(job)
        at(scheduler.now + delay, .timer) { timer.fire() }
        return timer
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        add(.context) { [self] in job.runSynchronously(on: asUnownedSerialExecutor()) }
    }

    package func checkIsolated() { precondition(isCurrent, "called outside the connection's context") }

    /// Runs the job at this time.
    package func at(_ time: UInt64, _ kind: Scheduler.Kind, _ job: @escaping @Sendable () -> Void) {
        scheduler.at(time, machine, kind) { [self] in
            let before = scheduler.current
            scheduler.current = self
            job()
            scheduler.current = before
        }
    }

    private func add(_ kind: Scheduler.Kind, _ job: @escaping @Sendable () -> Void) {
        last = max(scheduler.soon(), last + 1)
        at(last, kind, job)
    }
}

/// Unchecked: used only on the simulation's one thread.
private final class SimulatedTimer: ScheduledJob, @unchecked Sendable {
    private var job: (@Sendable () -> Void)?

    init(_ job: @escaping @Sendable () -> Void) { self.job = job }

    func cancel() { job = nil }

    func fire() {
        let job = self.job
        self.job = nil
        job?()
    }
}

/// Where those tasks of a machine run that belong to no actor with an executor of its own.
package final class SimulatedTasks: TaskExecutor {
    private let scheduler: Scheduler
    private let machine: Int

    package init(_ scheduler: Scheduler, machine: Int) {
        self.scheduler = scheduler
        self.machine = machine
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        scheduler.at(scheduler.soon(), machine, .task) { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// The clocks of one simulated machine.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulatedTime: TimeSource, @unchecked Sendable {
    private let scheduler: Scheduler
    private let machine: Int
    /// How far the wall clock is off, in seconds; may be changed at any time.
    package var skew: Int64 = 0

    package init(_ scheduler: Scheduler, machine: Int) {
        self.scheduler = scheduler
        self.machine = machine
    }

    package func monotonicNanoseconds() -> UInt64 { scheduler.now + UInt64(machine) * 1_000_000_007 }
    package func wallSeconds() -> Int64 { 1_700_000_000 + Int64(scheduler.now / 1_000_000_000) + skew }

    package func sleep(nanoseconds: UInt64) async throws {
        let sleeper = Sleeper()
        let (scheduler, machine) = (scheduler, machine)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                sleeper.begin(continuation)
                scheduler.at(scheduler.now + nanoseconds, machine, .timer) { sleeper.end(.success(())) }
            }
        } onCancel: {
            sleeper.end(.failure(CancellationError()))
        }
    }

    /// Unchecked: used only on the simulation's one thread.
    private final class Sleeper: @unchecked Sendable {
        private var continuation: CheckedContinuation<Void, any Error>?
        private var result: Result<Void, any Error>?

        func begin(_ continuation: CheckedContinuation<Void, any Error>) {
            if let result { continuation.resume(with: result) } else { self.continuation = continuation }
        }

        func end(_ result: Result<Void, any Error>) {
            guard self.result == nil else { return }
            self.result = result
            continuation?.resume(with: result)
            continuation = nil
        }
    }
}
