import Environment
import Glibc

/// The lock file that shows which agent owns a data folder. One per folder, whatever databases the agent has, since the admin
/// socket is there. The kernel releases the lock when the process ends, however it ends.
final class DataFolderLock: Sendable {
    /// `data_folder_patience`: nanoseconds that a start waits for another process to end: one that was killed keeps its lock until the kernel has
    /// released its memory.
    fileprivate static let patience: UInt64 = 2_000_000_000
    /// `data_folder_check`: nanoseconds between two attempts.
    fileprivate static let checkInterval: UInt64 = 50_000_000

    /// What the file says after the number of the process.
    private enum State: String {
        case running, stopped
    }

    private let descriptor: Int32
    private let path: String
    /// Whether the last run on this folder ended cleanly; nil if that is not known: there was none, or it was that of an earlier version.
    let lastRunEndedCleanly: Bool?

    /// - Throws: ``AgentError``, of kind `notNow` if another process has the lock.
    init(folder: String) throws(AgentError) {
        let path = "\(folder)/agent.lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            let reason = errno
            let remedy = AgentUser.remedy(reason, at: path, data: folder).map { "; \($0)" } ?? ""
            throw AgentError(.failed, "cannot use the data folder \(folder): \(String(cString: strerror(reason))) at \(path)\(remedy)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            let owner = Self.owner(descriptor)
            close(descriptor)
            guard reason == EWOULDBLOCK else {
                throw AgentError(.failed, "cannot lock the data folder \(folder): \(String(cString: strerror(reason))) at \(path)")
            }
            throw AgentError(
                .notNow,
                "the data folder \(folder) is in use by \(owner.map { "process \($0)" } ?? "another agent"); "
                    + "stop it first, or name another folder as data")
        }
        lastRunEndedCleanly = Self.state(descriptor).map { $0 == .stopped }
        self.descriptor = descriptor
        self.path = path
        write(.running)
    }

    /// Notes that this run ended cleanly, for the next one.
    func noteCleanEnd() { write(.stopped) }

    /// All of it is only for what the next process says; on a full disk it may be missing.
    private func write(_ state: State) {
        let text = "\(getpid())\n\(state.rawValue)\n"
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.utf8.count, 0)
    }

    /// Whether the locked file is the one at its path. If it was removed or replaced, it keeps no other agent from the folder.
    var isInPlace: Bool { FileIdentity(descriptor: descriptor) == FileIdentity(path: path) }

    deinit { close(descriptor) }

    private static func owner(_ descriptor: Int32) -> Int32? { lines(descriptor).first.flatMap { Int32($0) } }

    private static func state(_ descriptor: Int32) -> State? { lines(descriptor).dropFirst().first.flatMap { State(rawValue: $0) } }

    private static func lines(_ descriptor: Int32) -> [String] {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return bytes.prefix(max(0, count)).split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
    }
}

extension Agent {
    /// Takes the lock of the data folder. If another process has it, waits for a moment: an agent that is started as soon as the one before it was
    /// killed should not fail.
    ///
    /// - Throws: ``AgentError`` if it is not possible, also because the other process stays; ``StartAbandoned``.
    func lockWhenFree(_ folder: String) async throws -> DataFolderLock {
        let begin = environment.time.monotonicNanoseconds()
        var isWaiting = false
        while true {
            do throws(AgentError) { return try DataFolderLock(folder: folder) } catch {
                guard error.kind == .notNow, environment.time.monotonicNanoseconds() - begin < DataFolderLock.patience else {
                    if isWaiting { log.notice("the start of process \(getpid()) is given up: \(error)") }
                    throw error
                }
            }
            // The agent that has it may write to the same log.
            if !isWaiting { log.notice("a start of process \(getpid()): the data folder \(folder) is in use; waiting up to \(DataFolderLock.patience / 1_000_000_000) s for the process that has it to end") }
            isWaiting = true
            try await environment.time.sleep(nanoseconds: DataFolderLock.checkInterval)
            try throwIfStopping()
        }
    }

    /// Takes the lock of the data folder again if its file was removed or replaced; the folder is made if it is gone.
    ///
    /// - Returns: whether that was necessary.
    /// - Throws: ``AgentError`` if it is not possible, also because another agent has taken the folder meanwhile.
    func keepFolderLock() throws(AgentError) -> Bool {
        guard !isStopping, let lock = folderLock, !lock.isInPlace else { return false }
        let folder = settings.data.value
        try Folders.make(folder)
        folderLock = try DataFolderLock(folder: folder)
        return true
    }
}
