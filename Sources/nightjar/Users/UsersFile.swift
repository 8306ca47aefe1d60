import Agent
import AgentConfiguration
import Environment
import Glibc
import PluginHost

/// A listener's users file, replaced atomically: a reader, or a power cut, gets either the old file or the new one.
struct UsersFile {
    /// As the user wrote it.
    let path: String
    /// The target of symbolic links: the links themselves are kept.
    private let place: String
    /// The user that the agent with this configuration runs as, if known.
    private let agentUser: uid_t?

    /// - Parameter dataFolder: the agent's; its owner must be able to read the file.
    init(_ path: String, dataFolder: String) {
        self.path = path
        if let resolved = realpath(path, nil) {
            defer { free(resolved) }
            place = String(cString: resolved)
        } else {
            place = path
        }
        var facts = stat()
        agentUser = stat(dataFolder, &facts) == 0 ? facts.st_uid : nil
    }

    /// - Parameter isThere: whether a missing file is an error; otherwise it counts as empty.
    func read(isThere: Bool) throws -> UserLines {
        let limit = PluginHostLimits().parameterFileBytes
        let file = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT, !isThere { return UserLines([]) }
            if errno == ENOENT { throw AgentError(.notFound, "there is no file \(path) yet; nightjar user add makes it") }
            throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))")
        }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else { throw AgentError(.failed, "\(path) is not a regular file") }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(file, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
            if count == 0 { return UserLines(bytes) }
            bytes += piece[..<count]
            guard bytes.count <= limit else { throw Self.tooLarge(path, limit) }
        }
    }

    /// Reads, changes and replaces the file, while no other command does.
    func change(isThere: Bool, _ body: (inout UserLines) throws -> Void) throws {
        let folder = DurableFile.parent(of: place)
        // Locks the folder instead of the file, because each change replaces the file.
        let lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw AgentError(.failed, "\(folder): \(String(cString: strerror(errno)))") }
        defer { close(lock) }
        while flock(lock, LOCK_EX) != 0 {
            guard errno == EINTR else { throw AgentError(.failed, "\(folder): cannot be locked: \(String(cString: strerror(errno)))") }
        }
        var lines = try read(isThere: isThere)
        try body(&lines)
        let limit = PluginHostLimits().parameterFileBytes
        let bytes = lines.bytes
        guard bytes.count <= limit else { throw Self.tooLarge(path, limit) }
        let owner = try owner()
        let written: Result<Void, FileError> = bytes.withUnsafeBytes { buffer in
            Result { () throws(FileError) in try DurableFile.write(place, buffer, writers: .several, owner: owner) }
        }
        do { try written.get() } catch { throw AgentError(.failed, "cannot write \(error)") }
    }

    /// The user to whom root must give the file; nil for no change. Only its owner can read it, and that has to be the agent.
    ///
    /// - Throws: if the agent would lose access.
    private func owner() throws -> uid_t? {
        var facts = stat()
        let before = stat(place, &facts) == 0 ? facts.st_uid : nil
        guard geteuid() != 0 else { return agentUser.flatMap { $0 == 0 ? nil : $0 } ?? before }
        guard let other = [agentUser, before].compactMap({ $0 }).first(where: { $0 != geteuid() }) else { return nil }
        throw AgentError(
            .failed,
            "only its owner can read \(path), and \(agentUser == other ? "the agent runs as" : "it belongs to") the user \(Self.name(other)): run this as "
                + "that user (sudo -u \(Self.name(other)) nightjar …) or as root")
    }

    private static func name(_ user: uid_t) -> String {
        guard let entry = getpwuid(user), let name = entry.pointee.pw_name else { return "\(user)" }
        return String(cString: name)
    }

    private static func tooLarge(_ path: String, _ limit: Int) -> AgentError {
        AgentError(.tooLarge, "\(path) has more than \(limit) bytes, more than an agent reads of it (parameter file)")
    }
}
