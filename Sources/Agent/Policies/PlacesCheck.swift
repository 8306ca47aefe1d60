import AgentConfiguration
import Glibc

/// What a path names has to be of the right kind, if it is there; what is not there yet is made, or has advice of its own.
extension ConfigurationCheck {
    static func misplacedData(_ settings: AgentSettings) -> ConfigurationProblem? {
        let data = settings.data
        guard settings.knowsDataFolder, let kind = kind(of: data.value), kind != S_IFDIR else { return nil }
        return ConfigurationProblem(
            at: data.position, "data: \(data.value) is not a folder\(kind == S_IFREG ? " but a file" : ""): correct data or --data, or move away what is there")
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
