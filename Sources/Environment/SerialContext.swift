/// Runs jobs one at a time and in order: an event loop in production, a part of the scheduler in the simulation.
///
/// A connection's transport and its session share one, so that messages are decoded, processed and answered without a thread switch.
public protocol SerialContext: AnyObject, Sendable {
    /// The executor for actors that live here.
    var serialExecutor: any SerialExecutor { get }

    /// Whether the caller runs here.
    var isCurrent: Bool { get }

    /// Runs the job after those submitted before it. Any thread.
    func execute(_ job: @escaping @Sendable () -> Void)

    /// Runs the job after pending network input has had its turn: for work that is split into pieces, and would otherwise block the sockets until all
    /// of it is done. Any thread.
    func executeAfterIO(_ job: @escaping @Sendable () -> Void)

    /// Runs the job once, after this time has passed. Any thread.
    @discardableResult
    func schedule(afterNanoseconds delay: UInt64, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob
}

/// A job that waits for its time.
public protocol ScheduledJob: Sendable {
    /// The job will not run any more, unless it is already running.
    func cancel()
}

extension SerialContext {
    @discardableResult
    public func schedule(afterMilliseconds delay: Int, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob {
        schedule(afterNanoseconds: UInt64(max(0, delay)) * 1_000_000, job)
    }

    @discardableResult
    public func schedule(afterSeconds delay: Int, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob {
        schedule(afterNanoseconds: UInt64(max(0, delay)) * 1_000_000_000, job)
    }
}
