import NIOCore
import Synchronization

/// Jobs on an event loop that give it a chance to poll its sockets in between. NIO runs all tasks of a loop, including those that these add, before
/// it polls again: connections that continue their work in new tasks would starve all others for as long as they have any.
final class DeferredJobs: Sendable {
    /// Long enough that the loop finds no task due, and polls.
    private static let pause = TimeAmount.microseconds(20)

    private struct State {
        var jobs = CircularBuffer<@Sendable () -> Void>()
        var isScheduled = false
    }

    private let eventLoop: any EventLoop
    private let state = Mutex(State())
    private static let known = Mutex<[ObjectIdentifier: DeferredJobs]>([:])

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The queue of a loop. Loops live as long as the process.
    static func of(_ eventLoop: any EventLoop) -> DeferredJobs {
        known.withLock { known in
            if let jobs = known[ObjectIdentifier(eventLoop)], jobs.eventLoop === eventLoop { return jobs }
            let jobs = DeferredJobs(eventLoop)
            known[ObjectIdentifier(eventLoop)] = jobs
            return jobs
        }
    }

    func append(_ job: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.jobs.append(job)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    /// Runs one job between two polls.
    private func schedule() {
        eventLoop.scheduleTask(in: Self.pause) { [self] in
            let job = state.withLock { $0.jobs.popFirst() }
            job?()
            let goesOn = state.withLock { state in
                state.isScheduled = !state.jobs.isEmpty
                return state.isScheduled
            }
            if goesOn { schedule() }
        }
    }
}
