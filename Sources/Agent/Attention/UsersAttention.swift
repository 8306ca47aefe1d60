import AgentConfiguration
import PluginHost
import Synchronization

/// Examines the users files of listeners: each is read when it has changed.
final class UsersExamination: Sendable {
    private let known = Mutex<[String: (digest: [UInt8], finding: String?)]>([:])

    /// Why nobody can log in; nil if somebody can.
    func finding(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), of listener: String) -> String? {
        if let found = known.withLock({ $0[listener] }), found.digest == text.digest { return found.finding }
        let finding = Self.finding(text.bytes, text.path)
        known.withLock { $0[listener] = (text.digest, finding) }
        return finding
    }

    private static func finding(_ bytes: [UInt8], _ path: String) -> String? {
        let users = UserLines(bytes).users
        guard let first = users.first else { return "\(path) has no user, so that nobody can log in" }
        guard users.allSatisfy({ $0.problem != nil }) else { return nil }
        return "no line of \(path) lets anybody in: line \(first.line): \(first.problem ?? "")"
    }
}

extension Agent {
    /// The users file that a listener's authenticator uses; nil if it uses something else.
    nonisolated func usersFile(of settings: ListenerSettings) -> (bytes: [UInt8], path: String, digest: [UInt8])? {
        guard let authenticator = settings.authenticator, authenticator.plugin.value == PluginReference.usersPlugin else { return nil }
        return plugins?.text(of: "file", plugin: PluginReference.usersPlugin, usedBy: "listener \(settings.name.value) authenticator")
    }

    /// Reports a listener whose authenticator lets nobody in, which otherwise only the rejected peers would notice.
    nonisolated func usersAttention(of listener: PeerListener) -> [Attention] {
        let name = listener.settings.name.value
        guard let text = usersFile(of: listener.settings), let finding = users.finding(text, of: name) else { return [] }
        return [
            Attention(
                .nobodyCanLogIn, "listener \(name)", finding,
                remedy: "nightjar user add NAME adds a user; if there were some before, restore the file: it is read again by itself")
        ]
    }
}
