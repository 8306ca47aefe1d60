import AgentConfiguration
import Glibc

/// What a path names has to be of the right kind, if it is there; what is not there yet is made, or has advice of its own.
extension ConfigurationCheck {
    static func misplacedData(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder else { return nil }
        if let obstacle = obstacle(toMaking: data.value), obstacle.isCertain {
            return ConfigurationProblem(at: data.position, "data: \(data.value) cannot be made: \(obstacle.reason): correct data or --data")
        }
        guard let kind = kind(of: data.value), kind != S_IFDIR else { return nil }
        return ConfigurationProblem(
            at: data.position, "data: \(data.value) is not a folder\(kind == S_IFREG ? " but a file" : ""): correct data or --data, or move away what is there")
    }

    /// A data folder that this user cannot make: the agent's user may be another one. Nil if it could, or the folder is there.
    package static func dataAdvice(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder, let obstacle = obstacle(toMaking: data.value), !obstacle.isCertain else { return nil }
        return ConfigurationProblem(
            at: data.position, "data: \(data.value) cannot be made by this user: \(obstacle.reason): make it for the agent's user, or correct data or --data")
    }

    /// Why a data folder that is not there could not be made.
    package struct DataObstacle: Sendable {
        package var reason: String
        /// For every user and at any time.
        package var isCertain: Bool
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
        guard kind(of: parent) == S_IFDIR else { return DataObstacle(reason: "\(parent) is not a folder", isCertain: true) }
        if isOfKernel(parent) {
            return DataObstacle(reason: "\(parent) shows the kernel's state, and holds no files", isCertain: true)
        }
        guard access(parent, W_OK | X_OK) != 0 else { return nil }
        return DataObstacle(reason: "\(parent): \(String(cString: strerror(errno)))", isCertain: false)
    }

    /// Root, too, cannot make a folder in procfs and sysfs, although `access` says otherwise.
    private static func isOfKernel(_ folder: String) -> Bool {
        var (facts, root, mount) = (stat(), stat(), stat())
        guard stat(folder, &facts) == 0, stat("/", &root) == 0, facts.st_dev != root.st_dev else { return false }
        for path: String in ["/proc", "/sys"] where stat(path, &mount) == 0 && mount.st_dev == facts.st_dev { return true }
        return false
    }

    static func misplacedLog(_ settings: AgentSettings) -> ConfigurationProblem? {
        guard let path = settings.log.file?.path, kind(of: path.value) == S_IFDIR else { return nil }
        return ConfigurationProblem(
            at: path.position, "log.file.path: \(path.value) is a folder, and the log needs a file: name one in it, such as \(path.value)/nightjar.log")
    }

    /// Nil if nothing is there, or nothing can be seen.
    private static func kind(of path: String) -> mode_t? {
        var facts = stat()
        return stat(path, &facts) == 0 ? facts.st_mode & S_IFMT : nil
    }
}
