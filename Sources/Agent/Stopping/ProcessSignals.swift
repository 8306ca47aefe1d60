import Environment
import Glibc
import Synchronization

/// The signals that steer a running agent: SIGTERM and SIGINT stop it, SIGHUP makes it read its configuration again.
///
/// They are taken from the moment this is made, so that one that comes before the agent is ready neither kills it nor is lost. A thread
/// of its own waits for them, which needs nothing that hostile load could occupy. After the first stop it counts down: an agent that has
/// not ended in order by ``longestStop`` is ended with ``exitStatus``.
package final class ProcessSignals: Sendable {
    /// `longest_stop`: seconds. An orderly stop takes up to five; twice that leaves a busy machine room, and stays well below the 90 s after
    /// which systemd kills.
    package static let longestStop = 10
    /// EX_TEMPFAIL: start it again. What is stored is safe: an acknowledged write is on disk, however the process ends.
    package static let exitStatus: Int32 = 75

    private struct State {
        var isStopping = false
        /// The signal that asked for the stop, until it is told.
        var untold: String?
        var stops: [AsyncStream<Void>.Continuation] = []
        var progress: StopProgress?
    }

    private let state = Mutex(State())
    private let time: any TimeSource
    /// A value for each SIGHUP; those that come while nobody asks are one.
    let reloads: AsyncStream<Void>
    private let reload: AsyncStream<Void>.Continuation

    /// Takes the signals over. Once a process.
    package init(time: any TimeSource) throws(AgentError) {
        self.time = time
        (reloads, reload) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw AgentError(.failed, "signals cannot be taken: \(String(cString: strerror(errno)))")
        }
        let (from, into) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A full pipe has enough signals in it; the handler must not wait.
        _ = fcntl(into, F_SETFL, O_NONBLOCK)
        signalPipe = into
        do throws(ThreadError) {
            try Thread(name: "signals") { [self] in watch(from) }.detach()
        } catch {
            throw AgentError(.failed, "\(error)")
        }
        for number in [SIGTERM, SIGINT, SIGHUP] {
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { number in
                var byte = UInt8(truncatingIfNeeded: number)
                let before = errno
                _ = Glibc.write(signalPipe, &byte, 1)
                errno = before
            }
            action.sa_flags = SA_RESTART
            sigaction(number, &action, nil)
        }
    }

    /// Whether a stop was asked for.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// The signal that asked for a stop, for the one line that tells of it; nil where none did, or it was told. Told by others than the
    /// thread that waits for signals: a log that nobody reads must not hold that up.
    func tellStop() -> String? {
        state.withLock { state in
            defer { state.untold = nil }
            return state.untold
        }
    }

    /// What the line about a stop that is cut short tells of.
    func tells(of progress: StopProgress) { state.withLock { $0.progress = progress } }

    /// Returns when a stop is asked for, at once if that was before, and when the task is cancelled.
    func stop() async {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        let isStopping = state.withLock { state in
            if !state.isStopping { state.stops.append(continuation) }
            return state.isStopping
        }
        if isStopping { return }
        for await _ in stream { return }
    }

    private func watch(_ pipe: Int32) {
        var deadline: UInt64?
        while true {
            var wait: Int32 = -1
            if let deadline {
                let now = time.monotonicNanoseconds()
                if now >= deadline { return end() }
                wait = Int32((deadline - now) / 1_000_000 + 1)
            }
            var question = pollfd(fd: pipe, events: Int16(POLLIN), revents: 0)
            guard poll(&question, 1, wait) > 0 else { continue }
            var byte: UInt8 = 0
            guard read(pipe, &byte, 1) == 1 else { continue }
            guard Int32(byte) != SIGHUP else {
                reload.yield()
                continue
            }
            if deadline == nil { deadline = time.monotonicNanoseconds() + UInt64(Self.longestStop) * 1_000_000_000 }
            let waiting = state.withLock { state in
                if !state.isStopping { state.untold = Int32(byte) == SIGINT ? "SIGINT" : "SIGTERM" }
                state.isStopping = true
                defer { state.stops = [] }
                return state.stops
            }
            for each in waiting { each.finish() }
        }
    }

    /// Ends the process as it is. Nobody may be waited for, not even a reader of the log.
    private func end() {
        let line = "\(Timestamp.format(wallNanoseconds: time.wallNanoseconds())) error database: the agent has not stopped within "
            + "longest_stop (\(Self.longestStop) s) and is ended with status \(Self.exitStatus); \(state.withLock { $0.progress }?.description ?? "it was starting")\n"
        var log = pollfd(fd: 2, events: Int16(POLLOUT), revents: 0)
        if poll(&log, 1, 0) > 0 { _ = Glibc.write(2, line, line.utf8.count) }
        _exit(Self.exitStatus)
    }
}

/// Where the signal handler writes: it may touch nothing else. Set once, before there is a handler.
private nonisolated(unsafe) var signalPipe: Int32 = -1
