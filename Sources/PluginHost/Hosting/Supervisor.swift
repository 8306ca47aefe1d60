import Environment
import Glibc
import Synchronization

/// The thread that reads the folder: at the start, after each notification once things have settled, on demand, and periodically.
final class Supervisor: Sendable {
    enum Command: Sendable {
        /// Read everything; retry what was refused.
        case reload(String?, CheckedContinuation<[ReloadVerdict], Never>?)
        /// Read everything for the first time; tests that have not run before run after the reply.
        case start(CheckedContinuation<Void, Never>)
        /// A plugin's uses have changed: versions refused because of them may now be suitable, and versions kept only for them
        /// may be released.
        case usesChanged
        /// Put an older version in force: the previous one, or the one whose name begins like this.
        case rollback(String, to: String?, CheckedContinuation<Result<ReloadVerdict, PluginError>, Never>)
        /// Put versions in force for which uses wait, see ``PluginHost/promoteSuccessors()``.
        case promote(CheckedContinuation<Void, Never>)
        case stop

        func refuse() {
            switch self {
            case .reload(_, let continuation): continuation?.resume(returning: [])
            case .promote(let continuation): continuation.resume()
            case .start(let continuation): continuation.resume()
            case .rollback(_, _, let continuation): continuation.resume(returning: .failure(.hostStopped))
            case .usesChanged, .stop: break
            }
        }
    }

    private struct Inbox {
        var commands: [Command] = []
        var isStopped = false
        var stopWaiters: [CheckedContinuation<Void, Never>] = []
    }

    private let inbox = Mutex(Inbox())
    private let wakeRead: Int32
    private let wakeWrite: Int32
    private let core: HostCore
    /// Not the environment's clock: the thread waits in poll(2), which uses the machine's own.
    private let clock = SystemTime()

    init(_ core: HostCore) throws(PluginError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw .system("cannot make a pipe: \(String(cString: strerror(errno)))") }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        wakeRead = ends[0]
        wakeWrite = ends[1]
        self.core = core
        let thread: Thread
        do {
            thread = try Thread(name: "plugins", stackBytes: core.limits.stackBytes) { [self] in
                work()
                let left = inbox.withLock { inbox in
                    defer { (inbox.commands, inbox.stopWaiters) = ([], []) }
                    inbox.isStopped = true
                    return (commands: inbox.commands, waiters: inbox.stopWaiters)
                }
                for command in left.commands { command.refuse() }
                for waiter in left.waiters { waiter.resume() }
            }
        } catch { throw .system("\(error)") }
        thread.detach()
        core.wakeSupervisor.withLock { $0 = { [weak self] in self?.wake() } }
    }

    deinit {
        close(wakeRead)
        close(wakeWrite)
    }

    func post(_ command: Command) {
        let isStopped = inbox.withLock { inbox in
            if !inbox.isStopped { inbox.commands.append(command) }
            return inbox.isStopped
        }
        if isStopped {
            return command.refuse()
        }
        wake()
    }

    private func wake() {
        var byte: UInt8 = 1
        // A full pipe also wakes the thread.
        _ = write(wakeWrite, &byte, 1)
    }

    /// Stops the thread and the workers, and waits until they have ended.
    func stop() async {
        core.beginStopping()
        post(.stop)
        await withCheckedContinuation { continuation in
            let isStopped = inbox.withLock { inbox in
                if !inbox.isStopped { inbox.stopWaiters.append(continuation) }
                return inbox.isStopped
            }
            if isStopped { continuation.resume() }
        }
    }

    // MARK: On the supervisor's thread

    /// How often failing uses are checked; the breaker decides whether a probe is due.
    private static let breakerLook: UInt64 = 1_000_000_000

    private func work() {
        var watch = FolderWatch()
        let reloader = Reloader(core)
        let quiet = UInt64(core.limits.quietMilliseconds) * 1_000_000
        let longest = UInt64(core.limits.longestQuietMilliseconds) * 1_000_000
        // Without inotify, only the periodic reading notices changes.
        let interval = UInt64(watch.number == nil ? min(5, core.limits.rescanSeconds) : core.limits.rescanSeconds) * 1_000_000_000
        var nextRescan = clock.monotonicNanoseconds() + interval
        var firstNotice: UInt64?
        var lastNotice: UInt64 = 0

        while true {
            let now = clock.monotonicNanoseconds()
            var wakeAt = nextRescan
            if let firstNotice { wakeAt = min(wakeAt, min(lastNotice + quiet, firstNotice + longest)) }
            let hasOpenBreaker = core.allRecords().contains { $0.hasOpenBreaker }
            if hasOpenBreaker { wakeAt = min(wakeAt, now + Self.breakerLook) }
            var polled = [pollfd(fd: wakeRead, events: Int16(POLLIN), revents: 0)]
            if let number = watch.number { polled.append(pollfd(fd: number, events: Int16(POLLIN), revents: 0)) }
            _ = poll(&polled, nfds_t(polled.count), wakeAt > now ? Int32(clamping: (wakeAt - now) / 1_000_000 + 1) : 0)

            if watch.drain() {
                lastNotice = clock.monotonicNanoseconds()
                if firstNotice == nil { firstNotice = lastNotice }
            }
            drainPipe()
            let commands = inbox.withLock { inbox in
                defer { inbox.commands = [] }
                return inbox.commands
            }
            let isStopping = commands.contains { if case .stop = $0 { true } else { false } }
            if isStopping {
                for command in commands { command.refuse() }
                core.pool.close()
                core.events.finish()
                return
            }

            if hasOpenBreaker { for record in core.allRecords() { record.probe(core.pool) } }
            let moment = clock.monotonicNanoseconds()
            let isQuiet = firstNotice.map { moment >= lastNotice + quiet || moment >= $0 + longest } ?? false
            guard !commands.isEmpty || isQuiet || moment >= nextRescan else { continue }
            if isQuiet || !commands.isEmpty { firstNotice = nil }
            nextRescan = moment + interval
            var demand = Reloader.Demand()
            for case .reload(let name, _) in commands { demand.add(name) }
            let starts = commands.compactMap { if case .start(let continuation) = $0 { continuation } else { nil } }
            if !starts.isEmpty {
                reloader.isStarting = true
                _ = reloader.rescan(demand, &watch)
                reloader.isStarting = false
                for continuation in starts { continuation.resume() }
                reloader.finishTests()
            }
            let verdicts = reloader.rescan(demand, &watch)
            for case .rollback(let name, let version, let continuation) in commands {
                continuation.resume(returning: Result { () throws(PluginError) in try reloader.rollBack(name, to: version) })
            }
            for case .promote(let continuation) in commands {
                reloader.promoteSuccessors()
                continuation.resume()
            }
            for case .reload(let name, let continuation) in commands {
                continuation?.resume(returning: name.map { name in verdicts.filter { $0.plugin == name } } ?? verdicts)
            }
        }
    }

    private func drainPipe() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(wakeRead, &bytes, bytes.count) > 0 {}
    }
}
