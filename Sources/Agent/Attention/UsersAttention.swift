import AgentConfiguration
import Encodings
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

    /// Reports logins that an authenticator could not judge. Strangers can cause this with names of their choice, so the agent does not count as
    /// unhealthy.
    nonisolated func loginAttention(of listener: PeerListener) -> [Attention] {
        let subject = "listener \(listener.settings.name.value)"
        let place = "\(subject) authenticator: "
        var list: [Attention] = []
        for plugin in plugins?.status() ?? [] {
            for failure in plugin.loginFailures where failure.utf8.starts(with: place.utf8) {
                let failure = String(failure.dropFirst(place.count))
                if plugin.name == PluginReference.usersPlugin, let wrong = WrongUserLine(failure), let file = usersFile(of: listener.settings)?.path {
                    list.append(
                        Attention(
                            .authenticatorFailing, subject, "\(file):\(wrong.line): user \(wrong.user): \(wrong.problem); only logins as this user are affected",
                            remedy: "fix or remove that line, or nightjar user passwd \(wrong.user); until then logins as this user are answered 503"))
                    continue
                }
                list.append(
                    Attention(
                        .authenticatorFailing, subject, "plugin \(plugin.name): a login could not be checked: \(failure)",
                        remedy: "fix the plugin; until then logins are answered 503 and may be retried"))
            }
        }
        return list
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

/// A line of a users file that is not valid, as the failure of the plugin `password-file` names it: `line N of the users file, user NAME: PROBLEM`.
struct WrongUserLine: Equatable {
    /// Counted from 1.
    var line: Int
    var user: String
    var problem: String

    init(line: Int, user: String, problem: String) { (self.line, self.user, self.problem) = (line, user, problem) }

    /// - Returns: nil if the failure is another one, which is the plugin's own.
    init?(_ failure: String) {
        guard let mark = failure.place(of: " of the users file, user ") else { return nil }
        let digits = failure[..<mark.lowerBound].reversed().prefix { ("0"..."9").contains($0) }
        guard let line = Int(String(digits.reversed())) else { return nil }
        // A name has no colon.
        let rest = failure[mark.upperBound...]
        guard let end = rest.place(of: ": ") else { return nil }
        self.init(line: line, user: String(rest[..<end.lowerBound]), problem: String(rest[end.upperBound...]))
    }
}
