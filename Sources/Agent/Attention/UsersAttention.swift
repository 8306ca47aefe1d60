import AgentConfiguration
import Encodings
import Interfaces
import PluginHost
import Synchronization

/// Examines the users files of listeners: each is read when it has changed.
final class UsersExamination: Sendable {
    /// `users_examined`: how many users a file may have for the agent to look for channels that documents grant to each.
    private static let limit = 200

    private struct Known: Sendable {
        var digest: [UInt8]
        /// Why nobody can log in; nil if somebody can.
        var finding: String?
        /// All users, if the file gives none of them a channel; empty otherwise, and if there are many.
        var withoutChannels: [Principal]
        /// The names of users to whom the file gives channels, but not all of them.
        var limited: [String]
        /// Lines that lock one user out, if others can log in.
        var wrong: [WrongUserLine]
    }

    private let known = Mutex<[String: Known]>([:])

    /// Why nobody can log in; nil if somebody can.
    func finding(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), of listener: String) -> String? { examined(text, listener).finding }

    /// The users, if the file gives no channel to any of them; empty otherwise.
    func withoutChannels(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), of listener: String) -> [Principal] { examined(text, listener).withoutChannels }

    /// The names of users to whom the file gives channels, but not all of them.
    func limited(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), of listener: String) -> [String] { examined(text, listener).limited }

    /// Lines that lock one user out, if others can log in.
    func wrong(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), of listener: String) -> [WrongUserLine] { examined(text, listener).wrong }

    private func examined(_ text: (bytes: [UInt8], path: String, digest: [UInt8]), _ listener: String) -> Known {
        if let found = known.withLock({ $0[listener] }), found.digest == text.digest { return found }
        let users = UserLines(text.bytes).users
        let (finding, valid) = (Self.finding(users, text.path), users.filter { $0.problem == nil })
        let isWithout = valid.count <= Self.limit && valid.allSatisfy { $0.options.channels.isEmpty }
        let found = Known(
            digest: text.digest, finding: finding, withoutChannels: isWithout ? valid.map { Principal(name: $0.name, roles: $0.options.roles) } : [],
            limited: valid.filter(\.isLimitedToChannels).map(\.name),
            wrong: finding == nil ? users.compactMap { user in user.problem.map { WrongUserLine(line: user.line, user: user.name, problem: $0) } } : [])
        known.withLock { $0[listener] = found }
        return found
    }

    private static func finding(_ users: [UserLines.User], _ path: String) -> String? {
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
        let file = usersFile(of: listener.settings)
        let wrong = file.map { users.wrong($0, of: listener.settings.name.value).prefix(Self.wrongLinesNamed) } ?? []
        if let path = file?.path { list += wrong.map { Self.attention($0, in: path, of: subject) } }
        for plugin in plugins?.status() ?? [] {
            for failure in plugin.loginFailures where failure.utf8.starts(with: place.utf8) {
                let failure = String(failure.dropFirst(place.count))
                if plugin.name == PluginReference.usersPlugin, let line = WrongUserLine(failure), let path = file?.path {
                    if !wrong.contains(where: { $0.line == line.line }) { list.append(Self.attention(line, in: path, of: subject)) }
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

    /// `wrong_users_named`: how many wrong lines of a users file are reported before somebody tries to log in with them.
    private static let wrongLinesNamed = 3

    private static func attention(_ wrong: WrongUserLine, in path: String, of subject: String) -> Attention {
        if wrong.user.isEmpty {
            return Attention(
                .authenticatorFailing, subject, "\(path):\(wrong.line): \(wrong.problem); nobody can log in with this line, the others are not affected",
                remedy: "fix or remove that line: nightjar user list names what is wrong with each")
        }
        return Attention(
            .authenticatorFailing, subject, "\(path):\(wrong.line): user \(wrong.user): \(wrong.problem); only logins as this user are affected",
            remedy: "fix or remove that line, or replace its hash with nightjar user passwd \(wrong.user), or its options with nightjar user permit \(wrong.user); until then logins as this user are answered 503")
    }

    /// Reports a listener whose users get nothing, or public documents only, although nothing fails: they have no channels, or no sync function puts
    /// documents into any.
    nonisolated func channelAttention(of listener: PeerListener) async -> [Attention] {
        let name = listener.settings.name.value
        guard let text = usersFile(of: listener.settings) else { return [] }
        guard let sync = listener.settings.sync else {
            let limited = users.limited(text, of: name)
            return ChannelsWithoutSync(listener.settings, limited, text.path, settings).map {
                [Attention(.channelsWithoutSync, "listener \(name)", $0.text, remedy: $0.remedy)]
            } ?? []
        }
        let found = users.withoutChannels(text, of: name)
        guard !found.isEmpty else { return [] }
        for principal in found {
            for wanted in listener.settings.databases {
                guard let open = database(wanted.value) else { continue }
                // Documents may grant channels to users and to their roles.
                guard let channels = try? await listener.channels(of: principal, in: open), channels.names.isEmpty else { return [] }
            }
        }
        return [
            Attention(
                .usersWithoutChannels, "listener \(name)",
                "sync function \(sync.plugin.value) puts documents into channels, and \(found.count == 1 ? "the only user" : "none of the \(Plural.count(found.count, "user"))") "
                    + "of \(text.path) has \(found.count == 1 ? "none" : "one"): \(found.count == 1 ? "it pulls" : "they pull") public documents (channel \"!\") and nothing else",
                remedy: PeerListener.channelsRemedy)
        ]
    }

    /// Reports a listener whose authenticator lets nobody in, which otherwise only the rejected peers would notice.
    nonisolated func usersAttention(of listener: PeerListener) -> [Attention] {
        let name = listener.settings.name.value
        guard let text = usersFile(of: listener.settings), let finding = users.finding(text, of: name) else { return [] }
        return [
            Attention(
                .nobodyCanLogIn, "listener \(name)", finding,
                remedy: "nightjar user add NAME --listener \(name) adds a user; if there were some before, restore the file: it is read again by itself")
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
