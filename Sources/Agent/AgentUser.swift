import DocumentStore
import Glibc

/// The owner of the agent's data folder: only that user and root can use its socket and its files.
package enum AgentUser {
    /// Advice for a user who lacks permission.
    package static func advice(data: String) -> String {
        var facts = stat()
        guard stat(data, &facts) == 0 else { return "run it as the agent's user" }
        let name = getpwuid(facts.st_uid).map { String(cString: $0.pointee.pw_name) }
        // sudo expects a numeric user id with a leading #.
        return "run it as the agent's user (\(name ?? "\(facts.st_uid)")), for example sudo -u \(name ?? "'#\(facts.st_uid)'")"
    }

    /// The same if the data folder exists and this user is neither its owner nor root; nil otherwise.
    package static func adviceForOtherUsers(data: String) -> String? {
        var facts = stat()
        guard geteuid() != 0, stat(data, &facts) == 0, facts.st_uid != geteuid() else { return nil }
        return advice(data: data)
    }

    // MARK: - What the system refuses

    /// What to do if the system does not let the agent use a path in its data folder; nil if the error says all that is known.
    ///
    /// - Parameters:
    ///   - number: the system's error; 0 if whoever met it did not say.
    ///   - path: absolute, as is `data`.
    ///   - who: what met the error; `doctor` may not run as the agent's user.
    package static func remedy(_ number: Int32, at path: String, data: String, who: String = "the agent") -> String? {
        let number = number != 0 || access(path, R_OK | W_OK) == 0 ? number : errno
        switch number {
        case EACCES, EPERM: return remedy(forbidden: obstacle(on: path), data: data, who)
        case EROFS:
            return "the file system of \(path) is read-only: find out why (dmesg, mount) and mount it for writing; where systemd runs the agent, name \(data) in "
                + "ReadWritePaths= of the service (systemctl edit nightjar)"
        case ENOTDIR: return "something on the way to \(path) is not a folder: move it away, or correct data or --data"
        default: return nil
        }
    }

    /// The store's error, with what to do if the system is to blame.
    static func explained(_ error: StoreError, data: String) -> any Error {
        guard let advice = remedy(error, data: data) else { return error }
        return AgentError(.failed, "\(error); \(advice)")
    }

    /// The same; nil if the error says all that is known.
    package static func remedy(_ error: StoreError, data: String, who: String = "the agent") -> String? {
        guard case .folder(let path, let number, _) = error else { return nil }
        return remedy(number, at: path, data: data, who: who)
    }

    private static func remedy(forbidden path: String, data: String, _ who: String) -> String? {
        var (facts, folder) = (stat(), stat())
        guard stat(path, &facts) == 0 else { return nil }
        let user = name(geteuid())
        let what = "\(who) runs as user \(user), and \(path) belongs to \(name(facts.st_uid)) (mode 0\(String(facts.st_mode & 0o7777, radix: 8)))"
        guard facts.st_uid != geteuid() else {
            return "\(what): chmod -R u+rwX \(data); if that does not help, look for what else forbids it (SELinux, AppArmor, the sandbox of the service)"
        }
        guard path.utf8.elementsEqual(data.utf8) || path.utf8.starts(with: "\(data)/".utf8) else {
            return "\(what): let that user pass there, or name another folder as data"
        }
        let isOwn = stat(data, &folder) == 0 && folder.st_uid == geteuid()
        return "\(what): " + (isOwn ? "" : "\(advice(data: data)); or, if it is to run as user \(user), ") + "as root: chown -R \(user) \(data)"
    }

    /// The first folder on the way that this user may not enter; otherwise as much of the path as there is.
    private static func obstacle(on path: String) -> String {
        var (found, facts) = ("", stat())
        for part in path.split(separator: "/") {
            let next = "\(found)/\(part)"
            guard stat(next, &facts) == 0 else { break }
            found = next
            if facts.st_mode & S_IFMT == S_IFDIR, access(found, X_OK) != 0 { break }
        }
        return found.isEmpty ? "/" : found
    }

    /// As `chown` takes it.
    private static func name(_ user: uid_t) -> String { getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)" }
}
