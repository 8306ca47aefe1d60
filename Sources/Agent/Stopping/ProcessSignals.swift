import Environment
import Glibc
import Synchronization

/// The signals that control a running agent: SIGTERM and SIGINT stop it, SIGHUP makes it reload its configuration.
///
/// They are handled from the moment this object is created, so that a signal that arrives before the agent is ready neither kills it nor gets lost. A
/// dedicated thread waits for them, which even hostile load cannot keep busy. After the first stop signal it counts down: if the agent has not
/// stopped in an orderly way within ``longestStop``, the process exits with ``exitStatus``.
package final class ProcessSignals: Sendable {
    /// `longest_stop`: seconds. An orderly stop takes up to five; twice that allows for a busy machine, and is well below the 90 s after which
    /// systemd kills the process.
    package static let longestStop = 10
    /// EX_TEMPFAIL: start it again. Stored data is safe: an acknowledged write is on disk, however the process ends.
    package static let exitStatus: Int32 = 75

    private struct State {
        var isStopping = false
        /// The signal that requested the stop, until it has been reported.
        var unreported: String?
        var stops: [AsyncStream<Void>.Continuation] = []
        var progress: StopProgress?
    }

    private let state = Mutex(State())
    private let time: any TimeSource
    /// Yields a value for each SIGHUP; several signals that arrive while nobody is reading count as one.
    let reloads: AsyncStream<Void>
    private let reload: AsyncStream<Void>.Continuation

    /// Takes over the signals. Only once per process.
    package init(time: any TimeSource) throws(AgentError) {
        self.time = time
        (reloads, reload) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw AgentError(.failed, "signals cannot be taken: \(String(cString: strerror(errno)))")
        }
        let (from, into) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A full pipe already contains enough signals; the handler must not block.
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

    /// Whether a stop was requested.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// The signal that requested a stop, for the one line that reports it; nil if none did, or it was reported. The thread that waits for signals
    /// does not log it, because a blocked log must not hold that thread up.
    func reportStop() -> String? {
        state.withLock { state in
            defer { state.unreported = nil }
            return state.unreported
        }
    }

    /// Sets the progress that is reported if a stop is cut short.
    func tells(of progress: StopProgress) { state.withLock { $0.progress = progress } }

    /// Returns when a stop is requested, immediately if it was requested before, and when the task is cancelled.
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
                if !state.isStopping { state.unreported = Int32(byte) == SIGINT ? "SIGINT" : "SIGTERM" }
                state.isStopping = true
                defer { state.stops = [] }
                return state.stops
            }
            for each in waiting { each.finish() }
        }
    }

    /// Ends the process immediately. It must not wait for anybody, not even for a reader of the log.
    private func end() {
        let line = "\(Timestamp.format(wallNanoseconds: time.wallNanoseconds())) error database: the agent has not stopped within "
            + "longest_stop (\(Self.longestStop) s) and is ended with status \(Self.exitStatus); \(state.withLock { $0.progress }?.description ?? "it was starting")\n"
        var log = pollfd(fd: 2, events: Int16(POLLOUT), revents: 0)
        if poll(&log, 1, 0) > 0 { _ = Glibc.write(2, line, line.utf8.count) }
        _exit(Self.exitStatus)
    }
}

/// Where the signal handler writes, which is all it may touch. Set once, before the handler is installed.
private nonisolated(unsafe) var signalPipe: Int32 = -1
