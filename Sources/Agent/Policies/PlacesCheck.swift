import AgentConfiguration
import Environment
import Glibc

/// What a path names has to be of the right kind, if it is there; what is not there yet is made, or has advice of its own.
extension ConfigurationCheck {
    static func misplacedData(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder else { return nil }
        if let obstacle = obstacle(toMaking: data.value), obstacle.isCertain {
            return ConfigurationProblem(at: data.position, "data: \(data.value) cannot be made: \(obstacle.reason): \(obstacle.mend)")
        }
        guard let kind = kind(of: data.value), kind != S_IFDIR else { return nil }
        return ConfigurationProblem(
            at: data.position, "data: \(data.value) is not a folder\(kind == S_IFREG ? " but a file" : ""): correct data or --data, or move away what is there")
    }

    /// A data folder that this user cannot make: the agent's user may be another one. Nil if it could, or the folder is there.
    package static func dataAdvice(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder else { return nil }
        if kind(of: data.value) == S_IFDIR, access(data.value, R_OK | W_OK | X_OK) != 0 {
            let reason = String(cString: strerror(errno))
            return ConfigurationProblem(
                at: data.position, "data: \(data.value) cannot be written by this user: \(reason): \(AgentUser.advice(data: data.value)); run as this user would not start")
        }
        guard let obstacle = obstacle(toMaking: data.value), !obstacle.isCertain else { return nil }
        return ConfigurationProblem(
            at: data.position, "data: \(data.value) cannot be made by this user: \(obstacle.reason): \(obstacle.mend)")
    }

    /// A data folder with which this agent could not start again: it will be the same user then, so that there is no doubt.
    static func unusableData(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder else { return nil }
        if let problem = misplacedData(settings) { return problem }
        if let obstacle = obstacle(toMaking: data.value) {
            return ConfigurationProblem(at: data.position, "data: \(data.value) cannot be made: \(obstacle.reason): \(obstacle.mend)")
        }
        guard kind(of: data.value) == S_IFDIR, access(data.value, R_OK | W_OK | X_OK) != 0 else { return nil }
        let number = errno
        let mend = AgentUser.remedy(number, at: data.value, data: data.value) ?? "let the agent's user write there, or correct data or --data"
        return ConfigurationProblem(at: data.position, "data: \(data.value) cannot be written: \(String(cString: strerror(number))): \(mend)")
    }

    /// Why a data folder that is not there could not be made.
    package struct DataObstacle: Sendable {
        package var reason: String
        /// For every user and at any time.
        package var isCertain: Bool
        /// What to do: the same wherever it is told.
        package var mend: String
    }

    /// What to do about a data folder that this user cannot make.
    static func makingData(_ data: String) -> String {
        "make it for the agent's user (as root: install -d -m 700 -o USER \(data)), or correct data or --data"
    }

    /// - Parameter data: absolute.
    /// - Returns: nil if it could be made, or is there.
    package static func obstacle(toMaking data: String) -> DataObstacle? {
        guard kind(of: data) == nil else { return nil }
        var parts = data.split(separator: "/")
        var parent = data
        while kind(of: parent) == nil, !parts.isEmpty {
            parts.removeLast()
            parent = "/" + parts.joined(separator: "/")
        }
        guard kind(of: parent) == S_IFDIR else { return DataObstacle(reason: "\(parent) is not a folder", isCertain: true, mend: "correct data or --data") }
        if isOfKernel(parent) {
            return DataObstacle(reason: "\(parent) shows the kernel's state, and holds no files", isCertain: true, mend: "correct data or --data")
        }
        guard access(parent, W_OK | X_OK) != 0 else { return nil }
        return DataObstacle(reason: "\(parent): \(String(cString: strerror(errno)))", isCertain: false, mend: makingData(data))
    }

    /// Root, too, cannot make a folder in procfs and sysfs, although `access` says otherwise.
    private static func isOfKernel(_ folder: String) -> Bool {
        var (facts, root, mount) = (stat(), stat(), stat())
        guard stat(folder, &facts) == 0, stat("/", &root) == 0, facts.st_dev != root.st_dev else { return false }
        for path: String in ["/proc", "/sys"] where stat(path, &mount) == 0 && mount.st_dev == facts.st_dev { return true }
        return false
    }

    /// A path at which no log file can ever be. `run` and `reload` refuse it, too.
    static func misplacedLog(_ settings: AgentSettings) -> ConfigurationProblem? {
        guard let path = settings.log.file?.path else { return nil }
        let isFolder = kind(of: path.value) == S_IFDIR
        guard isFolder || path.value.hasSuffix("/") else { return nil }
        let folder = "/" + path.value.split(separator: "/").joined(separator: "/")
        return ConfigurationProblem(
            at: path.position,
            "log.file.path: \(folder) is a folder\(isFolder ? "" : " by the slash at its end"), and the log needs a file: name one in it, such as \(folder)/nightjar.log")
    }

    /// Why the log would go to standard error instead of its file. The agent starts anyway.
    static func logAdvice(_ settings: AgentSettings) -> ConfigurationProblem? {
        guard let file = settings.log.file, misplacedLog(settings) == nil else { return nil }
        let path = file.path.value
        let folder = "/" + path.split(separator: "/").dropLast().joined(separator: "/")
        func advice(_ what: String, _ mend: String) -> ConfigurationProblem {
            ConfigurationProblem(at: file.path.position, "log.file: \(what), so that the log goes to standard error: \(mend)")
        }
        guard kind(of: folder) == S_IFDIR else { return advice("the folder \(folder) is not there", "make it, for the agent's user") }
        guard let found = kind(of: path) else {
            guard access(folder, W_OK | X_OK) != 0 else { return nil }
            return advice("\(path) cannot be made by this user (\(String(cString: strerror(errno))))", "let the agent's user write in \(folder)")
        }
        guard found == S_IFREG else { return advice("\(path) is \(FileKind.words(found)), not a regular file", "name another file") }
        guard access(path, W_OK) != 0 else { return nil }
        return advice("\(path) cannot be written by this user (\(String(cString: strerror(errno))))", "give it to the agent's user")
    }

    /// What is in the data folder, or too far down, and keeps `run` from starting. `doctor` examines the same with its other findings.
    package static func dataObstacles(_ settings: AgentSettings, _ environment: Environment) -> [ConfigurationProblem] {
        guard settings.knowsDataFolder else { return [] }
        let data = settings.data
        var problems: [ConfigurationProblem] = []
        if let problem = AdminServer.obstacle(toSocketIn: data.value) { problems.append(ConfigurationProblem(at: data.position, "data: \(problem.cause): \(problem.mend)")) }
        // To other users everything in it looks broken.
        guard kind(of: data.value) == S_IFDIR, AgentUser.adviceForOtherUsers(data: data.value) == nil else { return problems }
        for name in ["agent.lock", "admin.sock"] where kind(of: "\(data.value)/\(name)") == S_IFDIR {
            problems.append(ConfigurationProblem(at: data.position, "data: \(data.value)/\(name) is a folder, and the agent needs a file of its own there: move it away"))
        }
        for database in settings.databases {
            let folder = "\(data.value)/\(database.name.value).nightjar"
            guard let found = kind(of: folder), found != S_IFDIR else { continue }
            problems.append(
                ConfigurationProblem(
                    at: database.name.position, "database \(database.name.value): \(folder) is \(FileKind.words(found)), and the database needs a folder there: move it away"))
        }
        if let admin = settings.admin, admin.makesToken, let problem = AdminTokenFile.problem(data: data.value, environment.random) {
            problems.append(ConfigurationProblem(at: admin.position, "\(problem)"))
        }
        return problems
    }

    /// Sockets of listeners that `run` could not make. What is certain keeps it from starting; the rest may look otherwise once it does, when the service
    /// manager has made the folder.
    package static func socketObstacles(_ settings: AgentSettings) -> (certain: [ConfigurationProblem], advice: [ConfigurationProblem]) {
        var found: (certain: [ConfigurationProblem], advice: [ConfigurationProblem]) = ([], [])
        for listener in settings.listeners {
            guard let endpoint = listener.endpoint, endpoint.value.scheme == .unix else { continue }
            let path = endpoint.value.path
            let folder = "/" + path.split(separator: "/").dropLast().joined(separator: "/")
            func problem(_ what: String, _ mend: String) -> ConfigurationProblem {
                ConfigurationProblem(at: endpoint.position, "listener \"\(listener.name.value)\" endpoint: \(what): \(mend)")
            }
            if path.utf8.count > AdminServer.maximumSocketPath {
                found.certain.append(
                    problem("unix:\(path) has \(path.utf8.count) bytes, and the system allows \(AdminServer.maximumSocketPath) for a socket's path", "use a shorter one"))
            } else if let above = kind(of: folder), above != S_IFDIR {
                found.certain.append(problem("\(folder) is \(FileKind.words(above)), not a folder", "correct the path"))
            } else if kind(of: folder) == nil {
                found.advice.append(problem("the folder \(folder) is not there, and run would not start", "make it, for the agent's user"))
            } else if access(folder, W_OK | X_OK) != 0 {
                let reason = String(cString: strerror(errno))
                found.advice.append(problem("this user cannot make a socket in \(folder) (\(reason)), and would not start", "let the agent's user write there"))
            } else if let there = kind(of: path), there != S_IFSOCK {
                found.advice.append(problem("\(path) is \(FileKind.words(there)), and the listener would wait until it is gone", "move it away, or correct the path"))
            }
        }
        return found
    }

    /// Nil if nothing is there, or nothing can be seen.
    private static func kind(of path: String) -> mode_t? {
        var facts = stat()
        return stat(path, &facts) == 0 ? facts.st_mode & S_IFMT : nil
    }
}
