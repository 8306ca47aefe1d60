import AgentConfiguration
import Encodings

/// Users who may pull only what is in certain channels, at a listener whose databases have nothing in channels, because no listener serves them with a
/// sync function: they get nothing, and nothing fails.
package struct ChannelsWithoutSync: Sendable {
    /// `users_named`: how many are named; the others are counted.
    private static let shown = 3

    package let text: String
    package let remedy: String

    /// Nil if the listener has none.
    ///
    /// - Parameters:
    ///   - limited: users to whom their file gives channels, but not all of them.
    ///   - path: the users file.
    package init?(_ listener: ListenerSettings, _ limited: [String], _ path: String, _ settings: AgentSettings) {
        let routed = Set(settings.listeners.filter { $0.sync != nil }.flatMap { $0.databases.map(\.value) })
        guard let first = limited.first, let database = listener.databases.map(\.value).first(where: { !routed.contains($0) }) else { return nil }
        let names = limited.prefix(Self.shown).joined(separator: ", ") + (limited.count > Self.shown ? " and \(limited.count - Self.shown) more" : "")
        text = "\(limited.count == 1 ? "user \(names) of \(path) has" : "users \(names) of \(path) have") channels, and no listener serves database \(database) with a sync function, which "
            + "would put documents into channels: \(limited.count == 1 ? "the user pulls" : "they pull") nothing of it"
        remedy = "add sync: PLUGIN to the listener, or let the user pull everything: nightjar user permit \(first) --channel '*', with the --read-only and the roles that the user has now"
    }
}

extension UserLines.User {
    /// Whether channels are given to the user, but not all of them.
    package var isLimitedToChannels: Bool { !options.channels.isEmpty && !options.channels.contains("*") }
}
