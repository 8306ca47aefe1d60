import ArgumentParser
import Documents
import Encodings

struct ListenerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listener", abstract: "Starts and stops a listener of a running agent, and shows and disconnects its peers.",
        usage: """
            nightjar listener NAME start
            nightjar listener NAME stop
            nightjar listener NAME peers
            nightjar listener NAME sessions
            nightjar listener NAME disconnect USER|ADDRESS
            nightjar listener NAME revoke USER
            """,
        discussion: """
            stop: ends the connections and releases the port, until start, a change of its configuration, or the agent's next start. \
            start: also makes one that waits for its port try now. peers: connections, and feeds over HTTP (FEED: longpoll, continuous, eventsource), with the channels that \
            each may pull (all: it is not limited; none: it gets public documents only). sessions: logins with a cookie (POST /DATABASE/_session), until they end. disconnect: ends \
            connections, and answers over HTTP that are under way, such as feeds; their peers may come back. revoke: ends a user's sessions and connections, so that the user has to show the \
            password again; to keep a user out, remove the user from what the authenticator checks.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable { case start, stop, peers, sessions, disconnect, revoke }

    @OptionGroup var location: LocationOptions
    @Argument(help: "The listener's name.") var name: String
    @Argument(help: "start, stop, peers, sessions, disconnect or revoke.") var action: Action
    @Argument(help: ArgumentHelp("With disconnect: a user's name or an address; with revoke: a user's name.", valueName: "user|address")) var who: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        switch action {
        case .start, .stop: if who != nil { throw ValidationError("\(action.rawValue) takes the listener's name only") }
        case .peers, .sessions: if who != nil { throw ValidationError("\(action.rawValue) lists all of them") }
        case .disconnect, .revoke: if who == nil { throw ValidationError("say whom to \(action.rawValue)") }
        }
    }

    func run() async throws {
        try await Failure.reporting {
            let agent = try location.agent()
            let path = "/api/listeners/\(PercentEncoding.encode(name))/\(action.rawValue)"
            switch action {
            case .start, .stop:
                let answer = try await agent.request("POST", path)
                if json { return Output.json(answer) }
                let error = answer["error"]?["message"]?.asString.map { ": \(TextTable.printable($0))" } ?? ""
                Output.line("\(TextTable.printable(name)): \(answer["activity"]?.asString ?? "")\(error)")
            case .peers:
                show(try await agent.request("GET", path), ["address", "user", "channels", "database", "protocol", "feed", "since", "correlation_id"], none: "nobody is connected")
            case .sessions: show(try await agent.request("GET", path), ["user", "database", "ends_at"], none: "there are no sessions")
            case .disconnect, .revoke:
                let answer = try await agent.request("POST", "\(path)/\(PercentEncoding.encode(who ?? ""))")
                if json { return Output.json(answer) }
                let sessions = answer["sessions"].map { "\(Self.count($0, "session")) and " } ?? ""
                Output.line("\(TextTable.printable(who ?? "")): \(sessions)\(Self.count(answer["disconnected"], "connection")) ended")
            }
        }
    }

    private static func count(_ value: JSONValue?, _ noun: String) -> String {
        let count = value?.asInt64 ?? 0
        return "\(count) \(noun)\(count == 1 ? "" : "s")"
    }

    private static func text(_ row: JSONValue, _ column: String) -> String {
        guard let channels = row[column]?.asArray else { return row[column]?.asString ?? "-" }
        let names = channels.compactMap(\.asString)
        if names.isEmpty { return "none" }
        if row["all_channels"]?.asBool == true { return "all" }
        let more = row["more_channels"]?.asInt64 ?? 0
        return names.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
    }

    private func show(_ answer: JSONValue, _ columns: [String], none: String) {
        if json { return Output.json(answer) }
        var table = TextTable(columns.map { $0.uppercased() })
        for row in answer.asArray ?? [] { table.add(columns.map { Self.text(row, $0) }) }
        if table.isEmpty { Output.line(none) } else { Output.write(1, table.text) }
    }
}
