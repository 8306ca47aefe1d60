import Environment
import NIOCore

/// An event loop as the execution context of a connection.
public final class EventLoopContext: SerialContext {
    package let eventLoop: any EventLoop
    /// Obtained from the loop when an actor needs it, because an embedded loop has none.
    public var serialExecutor: any SerialExecutor { eventLoop.executor }

    public init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    public var isCurrent: Bool { eventLoop.inEventLoop }

    public func execute(_ job: @escaping @Sendable () -> Void) { eventLoop.execute(job) }

    public func executeAfterIO(_ job: @escaping @Sendable () -> Void) { DeferredJobs.of(eventLoop).append(job) }

    @discardableResult
    public func schedule(afterNanoseconds delay: UInt64, _ job: @escaping @Sendable () -> Void) -> any ScheduledJob {
        EventLoopJob(scheduled: eventLoop.scheduleTask(in: .nanoseconds(Int64(clamping: delay)), job))
    }
}

private struct EventLoopJob: ScheduledJob {
    let scheduled: Scheduled<Void>
    func cancel() { scheduled.cancel() }
}
