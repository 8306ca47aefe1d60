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
            guard let path = listener.usersFile(settings),
                let users = try? UsersFile(path, dataFolder: settings.data.value).read(isThere: true).users
            else { continue } // an unreadable file is reported as a problem elsewhere
            if let sync = listener.sync {
                if let line = channels(users, sync, path, settings) { advice.append("listener \"\(listener.name.value)\": \(line)") }
            } else if let found = ChannelsWithoutSync(listener, users.filter { $0.problem == nil && $0.isLimitedToChannels }.map(\.name), path, settings) {
                advice.append("listener \"\(listener.name.value)\": \(found.text): \(found.remedy)")
            }
            // What is wrong with a file is told once.
            guard seen.insert(path).inserted else { continue }
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

    /// Users without channels, who would get nothing of a listener whose sync function grants none.
    private static func channels(_ users: [UserLines.User], _ sync: PluginReference, _ path: String, _ settings: AgentSettings) -> String? {
        let valid = users.filter { $0.problem == nil }
        guard !valid.isEmpty, valid.allSatisfy({ $0.options.channels.isEmpty && $0.options.roles.isEmpty }) else { return nil }
        let plugin = sync.plugin.value
        // What a function grants is known only once it runs; one that never calls these grants nothing.
        guard let text = source(of: plugin, settings), !grants(text) else { return nil }
        return "sync function \(plugin) puts documents into channels, and no user of \(path) has one, so that they pull public documents (channel \"!\") and nothing else: "
            + PeerListener.channelsRemedy
    }

    private static func source(of plugin: String, _ settings: AgentSettings) -> String? {
        guard let folder = settings.plugins?.value, let file = try? InputFile(regular: "\(folder)/\(plugin).lua") else { return nil }
        defer { file.close() }
        return (try? file.all(limit: 1 << 20)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether it has the name of a function that grants something.
    private static func grants(_ text: String) -> Bool {
        text.utf8.split { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): false
            default: true
            }
        }.contains { $0.elementsEqual("access".utf8) || $0.elementsEqual("role".utf8) }
    }
}
