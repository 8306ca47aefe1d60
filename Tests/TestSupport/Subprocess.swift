import Glibc
import Synchronization

/// A program that a test has started, with its output as it comes, signals and its end. It is killed when the last reference is gone.
package final class Subprocess: Sendable {
    /// What the program reads.
    package enum Input: Sendable {
        /// Nothing: /dev/null.
        case none
        case text(String)
        case bytes([UInt8])
        /// A pipe that stays open: `write` and `closeInput`.
        case open
        /// A terminal that controls the program: `write` is what the person types.
        case terminal
    }

    /// How a program ended.
    package struct Outcome: Sendable, CustomStringConvertible {
        /// Nil if a signal ended it.
        package var status: Int32?
        package var signal: Int32?
        package var output: String
        package var errors: String
        /// The output as bytes, since it may not be text.
        package var outputBytes: [UInt8]

        /// For the messages of failed expectations.
        package var description: String {
            "\(status.map { "status \($0)" } ?? "signal \(signal ?? 0)")\n--- standard output:\n\(output)\n--- standard error:\n\(errors)"
        }
    }

    /// Where to look for a line.
    package enum Channel: Sendable { case output, errors }

    private struct State {
        var output: [UInt8] = []
        var errors: [UInt8] = []
        /// How many pipes have not come to their end.
        var open = 2
        var status: Int32?
    }

    /// Allows one start at a time: the pipes of one program must not leak into another, which would keep them open.
    private static let starting = Mutex(())

    /// What the test keeps of a program that was started.
    private struct Started {
        var pid: pid_t
        var output: Int32
        var errors: Int32
        /// -1 if the program reads nothing from us.
        var input: Int32
    }

    /// Shared with the threads that read and wait, so that they do not keep the process alive.
    private final class Shared: Sendable {
        let state = Mutex(State())
    }

    package let pid: pid_t
    package let command: String
    private let shared = Shared()
    private let input: Mutex<Int32>

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - environment: variables in addition to the test's own.
    ///   - folder: the program's current folder; nil for the test's.
    package init(
        _ executable: String, _ arguments: [String] = [], environment: [String: String] = [:], folder: String? = nil,
        input wanted: Input = .none
    ) throws {
        command = ([executable] + arguments).joined(separator: " ")
        // A program that does not read its input must not end the tests.
        signal(SIGPIPE, SIG_IGN)
        let started = try Self.starting.withLock { _ in
            try Self.start(executable, arguments, environment, folder, wanted)
        }
        pid = started.pid
        input = Mutex(started.input)
        let shared = shared
        detached { Self.collect(started.output, shared) { $0.output += $1 } }
        detached { Self.collect(started.errors, shared) { $0.errors += $1 } }
        detached { Self.reap(started.pid, shared) }
        switch wanted {
        case .text(let text): feed(Array(text.utf8))
        case .bytes(let bytes): feed(bytes)
        case .none, .open, .terminal: break
        }
    }

    deinit {
        send(SIGKILL)
        closeInput()
    }

    /// Runs a program to its end.
    package static func run(
        _ executable: String, _ arguments: [String] = [], environment: [String: String] = [:], folder: String? = nil,
        input: Input = .none, within: Duration = patience
    ) async throws -> Outcome {
        try await Subprocess(executable, arguments, environment: environment, folder: folder, input: input).wait(within: within)
    }

    // MARK: - Output

    /// What it has written so far.
    package var output: String { shared.state.withLock { String(decoding: $0.output, as: UTF8.self) } }
    /// What it has written to standard error so far.
    package var errors: String { shared.state.withLock { String(decoding: $0.errors, as: UTF8.self) } }

    /// Waits for a whole line.
    ///
    /// - Returns: the first line that contains the text, without its line break.
    /// - Throws: ``SupportError`` with everything that was written, if the program ends or the time is up first.
    package func line(containing text: String, in channel: Channel = .output, within: Duration = patience) async throws -> String {
        do {
            return try await eventually("a line with \"\(text)\" from \(command)", within: within) {
                // Asked before the output is searched: a program that has ended writes nothing more.
                let isOver = self.isOver
                let written = channel == .output ? self.output : self.errors
                var lines = written.split(separator: "\n", omittingEmptySubsequences: false)
                if !isOver { lines.removeLast() }
                if let found = lines.first(where: { $0.contains(text) }) { return String(found) }
                if isOver { throw SupportError("\(self.command) ended") }
                return nil
            }
        } catch {
            throw SupportError("no line contains \"\(text)\": \(error)\n--- standard output:\n\(output)\n--- standard error:\n\(errors)")
        }
    }

    private var isOver: Bool { shared.state.withLock { $0.status != nil && $0.open == 0 } }

    // MARK: - Input

    /// Writes to an open pipe or types on the terminal. Blocks while the pipe is full.
    package func write(_ text: String) {
        let descriptor = input.withLock { $0 }
        if descriptor >= 0 { _ = writeAll(descriptor, Array(text.utf8)) }
    }

    package func closeInput() {
        let descriptor = input.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
        if descriptor >= 0 { close(descriptor) }
    }

    private func feed(_ bytes: [UInt8]) {
        let descriptor = input.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
        detached {
            _ = writeAll(descriptor, bytes)
            close(descriptor)
        }
    }

    // MARK: - End

    package var isRunning: Bool { shared.state.withLock { $0.status == nil } }

    /// Sends a signal, which has no effect once the program has ended.
    package func send(_ signal: Int32) {
        shared.state.withLock { state in
            // Safe under the lock: the process is reaped under it too, and until then no other process can get its number.
            if state.status == nil { kill(pid, signal) }
        }
    }

    /// Waits for the end.
    ///
    /// - Throws: ``SupportError`` if it does not end in time, in which case it is killed.
    package func wait(within: Duration = patience) async throws -> Outcome {
        do {
            try await eventually("\(command) ends", within: within) { self.isOver }
        } catch {
            send(SIGKILL)
            throw SupportError("\(error)\n--- standard output:\n\(output)\n--- standard error:\n\(errors)")
        }
        let state = shared.state.withLock { ($0.status ?? 0, $0.output, $0.errors) }
        let signal = state.0 & 0x7F
        return Outcome(
            status: signal == 0 ? (state.0 >> 8) & 0xFF : nil, signal: signal == 0 ? nil : signal,
            output: String(decoding: state.1, as: UTF8.self), errors: String(decoding: state.2, as: UTF8.self),
            outputBytes: state.1)
    }

    // MARK: - Details

    private static func start(
        _ executable: String, _ arguments: [String], _ environment: [String: String], _ folder: String?, _ wanted: Input
    ) throws -> Started {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The program must not inherit the test runner's signal settings.
        var flags = Int32(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
        var signals = sigset_t()
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        // posix_spawn itself has no portable way to change the folder.
        let words = folder.map { ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", $0, executable] } ?? [executable]

        let out = try pipe()
        let err = try pipe()
        var theirs: [Int32] = [out.write, err.write]
        var ours: Int32 = -1
        switch wanted {
        case .none: posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        case .text, .bytes, .open:
            let ends = try pipe()
            posix_spawn_file_actions_adddup2(&actions, ends.read, 0)
            theirs.append(ends.read)
            ours = ends.write
        case .terminal:
            flags |= newSession
            ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
            var locked: Int32 = 0
            var number: UInt32 = 0
            guard ours >= 0, ioctl(ours, unlockTerminal, &locked) == 0, ioctl(ours, terminalNumber, &number) == 0 else {
                throw SupportError("no terminal: \(String(cString: strerror(errno)))")
            }
            // A terminal opened by a session leader that has none becomes its controlling terminal.
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/pts/\(number)", O_RDWR, 0)
        }
        posix_spawn_file_actions_adddup2(&actions, out.write, 1)
        posix_spawn_file_actions_adddup2(&actions, err.write, 2)
        // SwiftNIO's sockets would be inherited: a port that another test closes would stay open in this program.
        for descriptor in 3..<Int32(1024) { posix_spawn_file_actions_addclose(&actions, descriptor) }
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var variables = inherited
        for (name, value) in environment { variables[name] = value }
        var child = pid_t()
        let failure = withStrings(words + arguments) { arguments in
            withStrings(variables.map { "\($0.key)=\($0.value)" }) { variables in
                posix_spawn(&child, words[0], &actions, &attributes, arguments, variables)
            }
        }
        for descriptor in theirs { close(descriptor) }
        guard failure == 0 else {
            for descriptor in [out.read, err.read, ours] where descriptor >= 0 { close(descriptor) }
            throw SupportError("\(executable): \(String(cString: strerror(failure)))")
        }
        return Started(pid: child, output: out.read, errors: err.read, input: ours)
    }

    /// POSIX_SPAWN_SETSID, which the C library defines for GNU sources only.
    private static let newSession: Int32 = 0x80
    /// TIOCSPTLCK and TIOCGPTN of Linux, which are macros with casts.
    private static let unlockTerminal: UInt = 0x4004_5431
    private static let terminalNumber: UInt = 0x8004_5430

    private static func collect(_ descriptor: Int32, _ shared: Shared, _ keep: (inout State, [UInt8]) -> Void) {
        while let part = readSome(descriptor), !part.isEmpty { shared.state.withLock { keep(&$0, part) } }
        close(descriptor)
        shared.state.withLock { $0.open -= 1 }
    }

    private static func reap(_ pid: pid_t, _ shared: Shared) {
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        shared.state.withLock { state in
            var status: Int32 = 0
            waitpid(pid, &status, 0)
            state.status = status
        }
    }

    private static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { throw SupportError("pipe: \(String(cString: strerror(errno)))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static var inherited: [String: String] {
        var variables: [String: String] = [:]
        var entry = environ
        while let text = entry.pointee {
            let parts = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
            entry += 1
        }
        return variables
    }

    private static func withStrings<R>(_ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> R) -> R {
        let copies: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) } + [nil]
        defer { for copy in copies { free(copy) } }
        return body(copies)
    }
}
