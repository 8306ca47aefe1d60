import NIOCore
import Synchronization

/// Jobs of an event loop between which it looks at its sockets. NIO runs all tasks of a loop, and those that they bring, before it looks at a socket
/// again: connections whose work comes back as a task keep all others waiting for as long as they have any.
final class DeferredJobs: Sendable {
    /// Long enough for the loop to find that nothing is due now.
    private static let pause = TimeAmount.microseconds(20)

    private struct State {
        var jobs = CircularBuffer<@Sendable () -> Void>()
        var isScheduled = false
    }

    private let eventLoop: any EventLoop
    private let state = Mutex(State())
    private static let known = Mutex<[ObjectIdentifier: DeferredJobs]>([:])

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The one of a loop. Loops live as long as the process.
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

    /// One job for each look at the sockets.
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
