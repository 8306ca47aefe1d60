import AgentConfiguration
import Environment
import Glibc

/// The file of `log: { file }` and its rotated predecessors. If somebody moves or removes the file, it is created again.
///
/// Not thread-safe: the sink holds a lock.
struct LogFile {
    let settings: LogFileSettings
    private var descriptor: Int32 = -1
    private var bytes = 0
    /// Why the last line could not be written; nil if it was.
    private(set) var failure: String?

    init(_ settings: LogFileSettings) { self.settings = settings }

    /// What happened to a line.
    enum Outcome: Equatable {
        case written
        /// It belongs on standard error. The reason is given if the previous line could be written; nil if it has been reported.
        case failed(String?)
    }

    mutating func write(_ line: [UInt8]) -> Outcome {
        guard let failure = attempt(line) else {
            self.failure = nil
            return .written
        }
        // The disk may have recovered, so each line tries to open the file again.
        shut()
        defer { self.failure = failure }
        return .failed(self.failure == nil ? failure : nil)
    }

    mutating func shut() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    private var path: String { settings.path.value }

    /// - Returns: why it failed.
    private mutating func attempt(_ line: [UInt8]) -> String? {
        if descriptor >= 0, !isStillThere { shut() }
        if let failure = openIfNeeded() { return failure }
        if bytes > 0, bytes + line.count > settings.maxBytes {
            shut()
            if let failure = rotate() { return failure }
            if let failure = openIfNeeded() { return failure }
        }
        let written = line.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        guard written == line.count else {
            let failure = written < 0 ? String(cString: strerror(errno)) : "only a part of a line was written"
            // Removes a partly written line, so that the next one starts on a new line.
            if written > 0 { _ = ftruncate(descriptor, off_t(bytes)) }
            return failure
        }
        bytes += written
        return nil
    }

    private mutating func openIfNeeded() -> String? {
        guard descriptor < 0 else { return nil }
        do { descriptor = try RegularFile.open(path, O_WRONLY | O_CREAT | O_APPEND, permissions: 0o640) } catch { return error.reason }
        bytes = Int(max(0, lseek(descriptor, 0, SEEK_END)))
        return nil
    }

    /// Whether the path still refers to the open file.
    private var isStillThere: Bool {
        let open = FileIdentity(descriptor: descriptor)
        return open != nil && open == FileIdentity(path: path)
    }

    private func rotate() -> String? {
        if settings.files == 1 { return unlink(path) == 0 ? nil : String(cString: strerror(errno)) }
        for number in stride(from: settings.files - 1, to: 0, by: -1) {
            let old = number == 1 ? path : "\(path).\(number - 1)"
            // Earlier numbers may not exist yet.
            if rename(old, "\(path).\(number)") != 0, errno != ENOENT { return String(cString: strerror(errno)) }
        }
        return nil
    }
}
