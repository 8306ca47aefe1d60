import Glibc

/// Whose the agent's data folder is: only that user and root can use its socket and its files.
package enum AgentUser {
    /// What to do where this user may not do it.
    package static func advice(data: String) -> String {
        var facts = stat()
        guard stat(data, &facts) == 0 else { return "run it as the agent's user" }
        let name = getpwuid(facts.st_uid).map { String(cString: $0.pointee.pw_name) }
        // sudo wants a number that has no name with a sign.
        return "run it as the agent's user (\(name ?? "\(facts.st_uid)")), for example sudo -u \(name ?? "'#\(facts.st_uid)'")"
    }

    /// The same where the data folder is there and this user is not its owner, nor root; nil otherwise.
    package static func adviceToOthers(data: String) -> String? {
        var facts = stat()
        guard geteuid() != 0, stat(data, &facts) == 0, facts.st_uid != geteuid() else { return nil }
        return advice(data: data)
    }
}
