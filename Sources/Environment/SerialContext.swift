/// Runs jobs one at a time and in order: an event loop in life, a part of the scheduler in the simulation.
///
/// A connection's transport and its session share one, so that messages are decoded, decided and answered without a hop.
public protocol SerialContext: AnyObject, Sendable {
    /// What an actor that lives here takes for its executor.
    var serialExecutor: any SerialExecutor { get }

    /// Whether the caller runs here.
    var isCurrent: Bool { get }

    /// Runs the job after those that were given before it. Any thread.
    func execute(_ job: @escaping @Sendable () -> Void)

    /// Runs the job when what came from the network meanwhile had its turn: for work that goes on in pieces, which would keep the sockets waiting
    /// until all of it is done. Any thread.
    func executeAfterIO(_ job: @escaping @Sendable () -> Void)

    /// Runs the job once, when this much time has passed. Any thread.
    @discardableResult
    func schedule(afterNanoseconds delay: UInt64, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob
}

/// A job that waits for its time.
public protocol ScheduledJob: Sendable {
    /// The job is not run any more, unless it runs already.
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
