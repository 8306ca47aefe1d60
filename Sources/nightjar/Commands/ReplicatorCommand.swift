import Agent
import ArgumentParser
import Documents
import Encodings
import Synchronization

struct ReplicatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replicator", abstract: "Controls a replicator of a running agent, or lists them all.",
        usage: """
            nightjar replicator list
            nightjar replicator NAME start [--reset]
            nightjar replicator NAME stop [--keep]
            nightjar replicator NAME suspend
            nightjar replicator NAME resume
            nightjar replicator NAME pending [ID]
            nightjar replicator NAME held
            nightjar replicator NAME refused
            nightjar replicator NAME retry-refused
            nightjar replicator NAME orphaned
            """,
        discussion: """
            start: also makes one that waits for its next attempt try now, and has one that is connected try at once the documents that wait: held, refused, \
            or could not be exchanged at the moment. suspend: ends the connection and makes none \
            until resume, start, a reload that changes the replicator's own settings, or the agent's next start. pending: documents that wait to be pushed (direction push), \
            with the reason where the peer could not take them: those after the checkpoint that the remote is not known to have, and those that a push \
            filter rejected which has changed since. No connection has asked the push filter about them; those that it would reject now are listed, \
            with that reason, as PENDING of nightjar status counts them. Not what the checkpoint has passed as rejected, held or refused. Behind them those whose conflict waits for a decision, which PENDING of nightjar status does not count, and those that came and could not be pulled at the moment \
            (direction pull), with the reason; PENDING of nightjar status counts what is to be pushed only, and nobody can list what was not asked for yet. With ID: whether that one waits. held: documents \
             whose filter failed, that are too large, or with a blob that cannot be taken or given; behind them those of the remote that were too large for this \
             agent's limits.memory, of which nothing is here, and which HELD of nightjar status does not count. refused: documents that the peer refused; each new connection offers them again, one that \
             stands does after a minute, then less and less often, up to an hour apart, and retry-refused does it now (their former names, rejected and retry-rejected, still work); one that shows until was refused because its version is in the future, and is offered again at that time. Behind them (direction pull) documents of the remote that \
             cannot be stored here, such as one that is nested too deeply, until they change there. What a filter here said no to \
            is rejected, and only counted. orphaned: documents that the remote took away but that were kept here, by \
            enable_auto_purge or a pull filter.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case start, stop, suspend, resume, pending, held, refused
        case retryRefused = "retry-refused"
        case orphaned

        /// The last two are former names of `refused`.
        init?(argument: String) {
            switch argument {
            case "rejected": self = .refused
            case "retry-rejected": self = .retryRefused
            default: self.init(rawValue: argument)
            }
        }
    }

    @OptionGroup var location: LocationOptions
    @Argument(help: "The replicator's name, or \"list\".") var name: String
    @Argument(help: "start, stop, suspend, resume, pending, held, refused, retry-refused or orphaned.") var action: Action?
    @Argument(help: "With pending: only this document.") var id: String?
    @Option(help: "With pending ID: its collection (default: the default collection).") var collection: String?
    @Flag(help: "With stop: stay stopped when the agent starts again.") var keep = false
    @Flag(help: "With start: forget the checkpoint and check every document again.") var reset = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if action == nil, name != "list" {
            throw ValidationError(
                "say what to do with replicator \"\(name)\": start, stop, suspend, resume, pending, held, refused, retry-refused or orphaned")
        }
        if keep, action != .stop { throw ValidationError("--keep goes with stop") }
        if id != nil, action != .pending { throw ValidationError("a document's ID goes with pending") }
        if collection != nil, id == nil { throw ValidationError("--collection goes with pending ID") }
        if reset, action != .start { throw ValidationError("--reset goes with start") }
    }

    func run() async throws {
        try await Failure.reporting {
            let agent = try location.agent()
            let path = "/api/replicators/\(PercentEncoding.encode(name))"
            switch action {
            case nil:
                let replicators = try await agent.request("GET", "/api/replicators")
                if json { Output.json(replicators) } else { Output.write(1, String(StatusText.replicators(replicators.asArray ?? []).dropFirst())) }
            case .start:
                let answer = try await agent.request("POST", "\(path)/start\(reset ? "?reset=true" : "")")
                show(answer, "started" + Self.backlog(answer))
            case .stop:
                show(try await agent.request("POST", "\(path)/stop\(keep ? "?keep=true" : "")"), "stopping" + until)
            case .suspend: show(try await agent.request("POST", "\(path)/suspend"), "suspended")
            case .resume: show(try await agent.request("POST", "\(path)/resume"), "resumed")
            case .pending:
                guard let id else {
                    return try await list("\(path)/pending", at: agent, ["collection", "id", "direction", "since", "reason"], none: "nothing is pending")
                }
                let query = collection.map { "?collection=\(PercentEncoding.encode($0))" } ?? ""
                let answer = try await agent.request("GET", "\(path)/pending/\(PercentEncoding.encode(id))\(query)")
                if json { return Output.json(answer) }
                let reason = answer["reason"]?.asString.map { ": \(TextTable.printable($0))" } ?? ""
                Output.line("\(TextTable.printable(id)): \(answer["pending"]?.asBool == true ? "pending" : "not pending")\(reason)")
            case .held:
                try await list(
                    "\(path)/held", at: agent, ["collection", "id", "direction", "plugin", "tries", "since", "error"], none: "nothing is held")
            case .orphaned:
                try await list("\(path)/orphaned", at: agent, ["collection", "id", "rev", "since", "plugin", "reason"], none: "nothing is orphaned")
            case .refused:
                try await list(
                    "\(path)/refused", at: agent, ["collection", "id", "rev", "direction", "status", "tries", "since", "until", "reason"],
                    none: try await barrier(path, at: agent)
                        ?? "the peer refuses nothing; nor does anything of it fail to be stored here; why a filter here rejected a document: nightjar doc why DB ID")
            case .retryRefused:
                let answer = try await agent.request("POST", "\(path)/retry-refused")
                let count = answer["documents"]?.asInt64 ?? 0
                let what = count == 0 ? "what waits, although the peer accepted nothing so far" : "\(Plural.count(count, "document")) that the peer refused"
                if answer["now"]?.asBool == true {
                    show(answer, "offering \(what)")
                } else {
                    show(answer, count == 0 ? "the peer refuses nothing: nothing is offered again" : "not connected; the next connection offers \(what)")
                }
            }
        }
    }

    /// Why the peer accepts no document at all; nil if that is not known of it.
    private func barrier(_ path: String, at agent: AgentClient) async throws -> String? {
        let report = try await agent.request("GET", path)
        guard let refusal = report["push_refused"]?["message"]?.asString else { return nil }
        return "no single document is refused: the peer accepts nothing from us: \(TextTable.printable(refusal)); "
            + "let this login write there, or set type: pull; what waits: nightjar replicator \(TextTable.printable(name)) pending"
    }

    /// Until when a stopped replicator stays stopped.
    private var until: String {
        keep ? "; it stays stopped until nightjar replicator \(name) start" : "; it starts again with the agent, unless it is stopped with --keep"
    }

    /// What was waiting, and when it is tried again; empty if nothing was.
    private static func backlog(_ answer: JSONValue) -> String {
        guard let count = answer["documents"]?.asInt64, count > 0 else { return "" }
        let kinds = [
            ("waiting", "could not be exchanged at the moment"), ("held", "held"), ("refused", "refused by the peer"),
        ].compactMap { key, words in
            answer[key]?.asInt64.flatMap { $0 > 0 ? "\($0) \(words)" : nil }
        }
        let documents = answer["documents_is_capped"]?.asBool == true ? "\(count) or more documents" : Plural.count(count, "document")
        return ", trying again \(answer["now"]?.asBool == true ? "at once" : "with the next connection"): \(documents) (\(kinds.joined(separator: ", ")))"
    }

    private func show(_ answer: JSONValue, _ word: String) {
        if json { Output.json(answer) } else { Output.line("\(TextTable.printable(name)): \(word)") }
    }

    private func list(_ path: String, at agent: AgentClient, _ columns: [String], none: @autoclosure () async throws -> String) async throws {
        if json {
            let printer = ListPrinter(json: true)
            try await agent.rows(path) { try printer.add($0) }
            return try printer.finish()
        }
        let table = Mutex(TextTable(columns.map { $0.uppercased() }))
        try await agent.rows(path) { row in
            let row = try JSONValue(stored: row)
            table.withLock { $0.add(columns.map { row[$0].map { $0.isNull ? "-" : $0.asString ?? $0.text } ?? "-" }) }
        }
        let found = table.withLock { $0.isEmpty ? nil : $0.text }
        if let found { Output.write(1, found) } else { Output.line(try await none()) }
    }
}
