import Glibc
import Synchronization

/// Another process, started for one measurement. It writes lines to its standard output; the end of its standard input tells it
/// to finish.
final class Child: Sendable {
    let process: pid_t
    private let input: Mutex<Int32>
    private let output: Int32
    private let buffer = Mutex<[UInt8]>([])
    private let isReaped = Mutex(false)

    /// This executable itself.
    static func ownPath() throws -> String {
        var path = [UInt8](repeating: 0, count: 4096)
        let count = path.withUnsafeMutableBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                characters.baseAddress.map { readlink("/proc/self/exe", $0, characters.count) } ?? -1
            }
        }
        guard count > 0 else { throw Files.failure("/proc/self/exe") }
        return String(decoding: path[..<count], as: UTF8.self)
    }

    /// - Parameter isSilent: whether its standard error is discarded.
    init(_ executable: String, _ arguments: [String], isSilent: Bool = false) throws {
        // If a child has ended, closing its input must not kill us.
        signal(SIGPIPE, SIG_IGN)
        let toChild = try Self.pipe()
        let fromChild = try Self.pipe()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, toChild.read, 0)
        posix_spawn_file_actions_adddup2(&actions, fromChild.write, 1)
        if isSilent { posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) }
        var list: [UnsafeMutablePointer<CChar>?] = ([executable] + arguments).map { strdup($0) } + [nil]
        defer { for entry in list { free(entry) } }
        var process: pid_t = 0
        let status = posix_spawn(&process, executable, &actions, nil, &list, environ)
        close(toChild.read)
        close(fromChild.write)
        guard status == 0 else {
            close(toChild.write)
            close(fromChild.read)
            throw BenchError("\(executable): \(String(cString: strerror(status)))")
        }
        self.process = process
        input = Mutex(toChild.write)
        output = fromChild.read
    }

    deinit {
        kill()
        close(output)
    }

    private static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw Files.failure("pipe") }
        // Otherwise another child would inherit the write end, and this one's input would never end.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// The next line without its line break; blocks. An error if there is none.
    func line() throws -> String {
        try buffer.withLock { buffer in
            var piece = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                if let end = buffer.firstIndex(of: 0x0A) {
                    let line = String(decoding: buffer[..<end], as: UTF8.self)
                    buffer.removeFirst(end + 1)
                    return line
                }
                let count = read(output, &piece, piece.count)
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { throw BenchError("process \(process) ended without an answer") }
                buffer += piece[..<count]
            }
        }
    }

    /// The values in the next line, which has the form `name=value name=value`.
    func values() throws -> [String: String] {
        var values: [String: String] = [:]
        for field in try line().split(separator: " ") {
            guard let sign = field.firstIndex(of: "=") else { continue }
            values[String(field[..<sign])] = String(field[field.index(after: sign)...])
        }
        return values
    }

    /// Closes its standard input.
    func closeInput() {
        input.withLock { descriptor in
            if descriptor >= 0 { close(descriptor) }
            descriptor = -1
        }
    }

    func terminate() { Glibc.kill(process, SIGTERM) }

    /// For programs that ignore SIGTERM: a child inherits the signals blocked in the thread that starts it.
    func kill() {
        if isReaped.withLock({ !$0 }) { Glibc.kill(process, SIGKILL) }
        wait()
    }

    /// Waits for its exit; returns its exit status, or 128 plus the signal's number. 0 if called again.
    @discardableResult
    func wait() -> Int32 {
        closeInput()
        return isReaped.withLock { isReaped in
            guard !isReaped else { return 0 }
            isReaped = true
            var status: Int32 = 0
            while waitpid(process, &status, 0) < 0 { if errno != EINTR { return 0 } }
            return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
        }
    }
}

extension [String: String] {
    /// A number reported by a child.
    func number(_ key: String) throws -> Double {
        guard let text = self[key], let value = Double(text) else { throw BenchError("a child process told no \(key): \(self)") }
        return value
    }
}

/// Writes a line from a child to its parent, unbuffered.
func tell(_ line: String) throws {
    try Files.write(Array((line + "\n").utf8), to: 1, "standard output")
}

/// Waits for the end of standard input on a separate thread, because cooperative threads must not block.
func endOfInput() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        let box = Unmanaged.passRetained(Waiting(continuation))
        var thread = pthread_t()
        let status = pthread_create(&thread, nil, { box in
            var byte: UInt8 = 0
            while true {
                let count = read(0, &byte, 1)
                if count == 0 || (count < 0 && errno != EINTR) { break }
            }
            if let box { Unmanaged<Waiting>.fromOpaque(box).takeRetainedValue().continuation.resume() }
            return nil
        }, box.toOpaque())
        if status == 0 { pthread_detach(thread) } else { box.takeRetainedValue().continuation.resume() }
    }
}

private final class Waiting: Sendable {
    let continuation: CheckedContinuation<Void, Never>
    init(_ continuation: CheckedContinuation<Void, Never>) { self.continuation = continuation }
}
