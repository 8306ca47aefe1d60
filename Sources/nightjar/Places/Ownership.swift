import Agent
import Glibc

/// What root makes in a data folder has to belong to the agent's user.
enum Ownership {
    /// Gives a file, or a folder with everything in it, to the owner of the data folder, if root runs the command. Nothing happens if it does not exist.
    static func give(_ path: String, toOwnerOf data: String) throws {
        var facts = stat()
        guard geteuid() == 0, stat(data, &facts) == 0, facts.st_uid != 0 else { return }
        try give(path, facts.st_uid, facts.st_gid)
    }

    private static func give(_ path: String, _ user: uid_t, _ group: gid_t) throws {
        var facts = stat()
        guard lstat(path, &facts) == 0 else { return }
        guard lchown(path, user, group) == 0 else {
            let reason = String(cString: strerror(errno))
            throw AgentError(
                .failed, "\(path) is complete, but cannot be given to user \(user), who owns the data folder: \(reason); run: chown -R \(user):\(group) \(path)")
        }
        guard facts.st_mode & S_IFMT == S_IFDIR else { return }
        guard let folder = opendir(path) else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
            }
            if name != ".", name != ".." { try give("\(path)/\(name)", user, group) }
        }
    }
}
