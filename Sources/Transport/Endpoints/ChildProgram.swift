import Glibc
import Interfaces
import Logging
import NIOCore
import NIOPosix

/// A program started for an endpoint: its pipes, its standard error, its exit.
///
/// Sendable although mutable: all mutable state is confined to `eventLoop`.
final class ChildProgram: @unchecked Sendable {
    /// `stderr_lines`: lines of a child's standard error that are logged; any more are only counted.
    static let errorLines = 100
    /// `stderr_line_bytes`: the logged length of each line.
    static let errorLineBytes = 1024
    /// `exit_time`: between SIGTERM and SIGKILL.
    static let exitTime = TimeAmount.seconds(2)

    let pid: pid_t
    /// The child's standard output, and its standard input.
    let output: CInt
    let input: CInt
    private let errors: CInt
    private let name: String
    private let eventLoop: any EventLoop
    private let logger: Logger
    private var hasEnded = false
    private var waited = TimeAmount.zero

    /// Starts it without a shell, in its own process group.
    init(_ arguments: [String], eventLoop: any EventLoop, logger: Logger) throws {
        name = arguments.first ?? ""
        self.eventLoop = eventLoop
        self.logger = logger
        var pipes: [CInt] = []
        func close(_ all: [CInt]) { for descriptor in all { Glibc.close(descriptor) } }
        for _ in 0..<3 {
            var pair: [CInt] = [0, 0]
            guard pipe(&pair) == 0 else {
                let code = errno
                close(pipes)
                throw Self.failure(name, code)
            }
            for descriptor in pair { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
            pipes += pair
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipes[0], 0)
        posix_spawn_file_actions_adddup2(&actions, pipes[3], 1)
        posix_spawn_file_actions_adddup2(&actions, pipes[5], 2)
        // SwiftNIO's sockets are inherited: our connections would stay open in the child.
        for descriptor in Self.openDescriptors() where descriptor > 2 { posix_spawn_file_actions_addclose(&actions, descriptor) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        sigdelset(&signals, SIGKILL)
        sigdelset(&signals, SIGSTOP)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
        var list: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for text in list { free(text) } }
        var process = pid_t()
        let status = posix_spawnp(&process, name, &actions, &attributes, &list, environ)
        close([pipes[0], pipes[3], pipes[5]])
        guard status == 0 else {
            close([pipes[1], pipes[2], pipes[4]])
            throw Self.failure(name, status)
        }
        pid = process
        (input, output, errors) = (pipes[1], pipes[2], pipes[4])
    }

    private static func openDescriptors() -> [CInt] {
        guard let folder = opendir("/proc/self/fd") else { return [] }
        defer { closedir(folder) }
        var found: [CInt] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if let descriptor = CInt(name) { found.append(descriptor) }
        }
        return found
    }

    private static func failure(_ name: String, _ code: CInt) -> ReplicationError {
        // Transient: the program may be installed, or descriptors may be available, at the next attempt.
        ReplicationError(network: .hostDown, message: "exec:\(name) cannot be started: \(NetworkErrors.systemText(code))")
    }

    /// The child's standard input and output as one channel. Must be called only once.
    func channel(_ handler: @escaping @Sendable () -> StreamHandler) -> EventLoopFuture<any Channel> {
        let log = ErrorLines(pid: pid, name: name, logger: logger)
        NIOPipeBootstrap(group: eventLoop)
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(log.handler()) } }
            .takingOwnershipOfDescriptor(input: errors).whenFailure { [errors] _ in Glibc.close(errors) }
        return NIOPipeBootstrap(group: eventLoop)
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler()) } }
            .takingOwnershipOfDescriptors(input: output, output: input)
            .map { $0 as any Channel }
    }

    /// Its pipes are closed: it gets `exit_time` to exit, then it is killed together with its child processes.
    func end() {
        eventLoop.execute {
            guard !self.hasEnded, !self.reaped() else { return }
            kill(-self.pid, SIGTERM)
            self.watch()
        }
    }

    private func watch() {
        let pause = TimeAmount.milliseconds(20)
        eventLoop.scheduleTask(in: pause) {
            guard !self.hasEnded, !self.reaped() else { return }
            let before = self.waited
            self.waited = before + pause
            if before < Self.exitTime, self.waited >= Self.exitTime { kill(-self.pid, SIGKILL) }
            self.watch()
        }
    }

    private func reaped() -> Bool {
        var status: CInt = 0
        let found = waitpid(pid, &status, WNOHANG)
        guard found == pid || (found < 0 && errno == ECHILD) else { return false }
        hasEnded = true
        logger.debug("the command has ended", metadata: ["command": "\(name)", "pid": "\(pid)", "status": "\((status >> 8) & 0xFF)"])
        return true
    }
}

/// Logs what a child writes to standard error, within limits.
private struct ErrorLines: Sendable {
    let pid: pid_t
    let name: String
    let logger: Logger

    func handler() -> Handler { Handler(self) }

    final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let about: ErrorLines
        private var line: [UInt8] = []
        private var lines = 0
        private var dropped = 0

        init(_ about: ErrorLines) { self.about = about }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            for byte in unwrapInboundIn(data).readableBytesView {
                if byte == UInt8(ascii: "\n") {
                    write()
                } else if line.count < ChildProgram.errorLineBytes {
                    line.append(byte)
                }
            }
        }

        func channelInactive(context: ChannelHandlerContext) {
            if !line.isEmpty { write() }
            if dropped > 0 {
                about.logger.notice(
                    "further lines of the command were not logged: stderr_lines is \(ChildProgram.errorLines)",
                    metadata: ["command": "\(about.name)", "lines": "\(dropped)"])
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

        private func write() {
            defer { line = [] }
            lines += 1
            guard lines <= ChildProgram.errorLines else {
                dropped += 1
                return
            }
            about.logger.notice("\(String(decoding: line, as: UTF8.self))", metadata: ["command": "\(about.name)", "pid": "\(about.pid)"])
        }
    }
}
