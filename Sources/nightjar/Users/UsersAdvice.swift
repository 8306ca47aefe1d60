import Agent
import AgentConfiguration
import Encodings

/// What is hardly meant in the files of users that listeners have: a file without users lets nobody in, and a line that is wrong keeps one out.
enum UsersAdvice {
    /// Lines that are named of each file.
    private static let shown = 10

    static func lines(_ settings: AgentSettings) -> [String] {
        var seen: Set<String> = []
        var advice: [String] = []
        for listener in settings.listeners {
            guard let path = UsersFileOptions.file(of: listener, settings), seen.insert(path).inserted,
                let users = try? UsersFile(path, dataFolder: settings.data.value).read(isThere: true).users
            else { continue } // a file that cannot be read is a problem, which is told as one
            let place = "listener \"\(listener.name.value)\": \(path)"
            if users.isEmpty { advice.append("\(place) has no user, so that nobody can log in: nightjar user add NAME") }
            let wrong = users.filter { $0.problem != nil }
            for user in wrong.prefix(shown) {
                let name = user.name.isEmpty ? "" : ", user \(user.name)"
                advice.append("\(place): line \(user.line)\(name): \(user.problem ?? ""); nobody can log in by this line")
            }
            if wrong.count > shown { advice.append("\(place): \(Plural.count(wrong.count - shown, "further line")) that nobody can log in by; nightjar user list shows them") }
        }
        return advice
    }
}
