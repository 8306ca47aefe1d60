import Agent
import AgentConfiguration
import Encodings

/// Likely mistakes in listeners' users files: a file without users lets nobody in, and an invalid line locks one user out.
enum UsersAdvice {
    /// How many lines are named per file.
    private static let shown = 10

    static func lines(_ settings: AgentSettings) -> [String] {
        var seen: Set<String> = []
        var advice: [String] = []
        for listener in settings.listeners {
            guard let path = listener.usersFile(settings), seen.insert(path).inserted,
                let users = try? UsersFile(path, dataFolder: settings.data.value).read(isThere: true).users
            else { continue } // an unreadable file is reported as a problem elsewhere
            let place = "listener \"\(listener.name.value)\": \(path)"
            if users.isEmpty { advice.append("\(place) has no user, so that nobody can log in: nightjar user add NAME") }
            let wrong = users.filter { $0.problem != nil }
            for user in wrong.prefix(shown) {
                let name = user.name.isEmpty ? "" : ", user \(user.name)"
                advice.append("\(place): line \(user.line)\(name): \(user.problem ?? ""); nobody can log in with this line")
            }
            if wrong.count > shown { advice.append("\(place): \(Plural.count(wrong.count - shown, "further line")) that nobody can log in with; nightjar user list shows them") }
        }
        return advice
    }
}
