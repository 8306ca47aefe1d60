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
}
