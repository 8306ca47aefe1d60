import Agent
import ArgumentParser
import Documents

/// `nightjar conflicts resolve`: a person decides a conflict.
struct ConflictsResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve", abstract: "Decides a conflict that waits, by hand.",
        usage: """
            nightjar conflicts resolve ID
            nightjar conflicts resolve ID --take local|remote|delete [--seen LOCAL,REMOTE]
            nightjar conflicts resolve ID --document FILE [--seen LOCAL,REMOTE]
            """,
        discussion: """
            With ID alone it shows both sides, what they differ in, and how to go on. --take keeps the document that is here (local), takes the \
            one from there (remote), or deletes the document; --document puts another one in the place of both, from FILE or, with -, from standard \
            input. The decision ends the conflict as a resolver's does: it is pushed to the peer and recorded in the history. \
            If the document has changed since the revisions of --seen, nothing is done, with exit status 1; without --seen those count that are \
            there when the command starts. "nightjar conflicts list --pending" lists what waits. On a running agent it needs the role operate.
            """)

    enum Side: String, ExpressibleByArgument, CaseIterable {
        case local, remote, delete
    }

    @OptionGroup var location: LocationOptions
    @Argument(help: "The document's id.") var id: String
    @Option(help: "local: keep the document here. remote: take the one from the other side. delete: delete the document.") var take: Side?
    @Option(help: ArgumentHelp("The JSON document to keep; - reads it from standard input.", valueName: "file"), completion: .file()) var document: String?
    @Option(help: ArgumentHelp("The two revisions that the decision is based on.", valueName: "local,remote")) var seen: String?
    @Option(help: ArgumentHelp("DATABASE or DATABASE.SCOPE.COLLECTION, where the id has conflicts in several.", valueName: "db")) var db: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if take != nil, document != nil { throw ValidationError("--take and --document are two decisions; give one") }
        if take == nil, document == nil, seen != nil { throw ValidationError("--seen belongs to --take or --document") }
        if let seen, Self.pair(seen) == nil { throw ValidationError("--seen is two revisions with a comma between, not \"\(TextTable.printable(seen))\"") }
    }

    func run() async throws {
        try await Failure.reporting {
            try await ConflictsCommand.with(location, db) { source, scope, settings in
                let choice = try choice()
                if let choice, let seen = seen.flatMap(Self.pair) {
                    return show(try await source.decide(id, scope, .init(local: seen.0, remote: seen.1, choice: choice), settings))
                }
                let row = try await pending(source, scope)
                guard let choice else { return json ? Output.json(row) : Output.write(1, ConflictText.show(row) + Self.advice(row)) }
                guard let sides = Self.sides(row) else {
                    throw AgentError(.failed, "the two sides of the conflict cannot be read: look at the database with nightjar doctor")
                }
                show(try await source.decide(id, scope, .init(local: sides.0, remote: sides.1, choice: choice), settings))
            }
        }
    }

    private func choice() throws -> DecisionByHand.Choice? {
        if let take { return .take(take.rawValue) }
        guard let document else { return nil }
        let file = try InputFile(document)
        defer { file.close() }
        let bytes = try file.all(limit: DocCommand.maximumInput)
        do { _ = try JSONValue(parsing: bytes) } catch { throw AgentError(.invalid, "\(file.name): \(error)") }
        return .document(bytes)
    }

    /// The pending conflict of the document.
    private func pending(_ source: ConflictSource, _ scope: ConflictSource.Scope) async throws -> JSONValue {
        let rows = try await source.find(id, scope, limit: 1).rows.filter { $0["state"]?.asString == "pending" }
        guard let row = rows.first else {
            throw AgentError(
                .notFound, "no conflict of document \"\(TextTable.printable(id))\" waits; nightjar conflicts list --pending lists those that do")
        }
        guard rows.count == 1 else {
            let names = rows.map(Self.place).joined(separator: ", ")
            throw AgentError(.invalid, "conflicts of document \"\(TextTable.printable(id))\" wait in several places: say which, with --db: \(names)")
        }
        return row
    }

    private func show(_ answer: JSONValue) {
        if json { return Output.json(answer) }
        let number = answer["number"]?.asInt64.map { ", conflict \($0) of the history" } ?? ""
        Output.line("\(TextTable.printable(id)): decided, the document is at \(answer["rev"]?.asString ?? "-") now\(number)")
        if answer["pending"]?.asBool == true { Output.line("another branch of it waits: nightjar conflicts resolve \(TextTable.printable(id)) shows it") }
    }

    private static func place(_ row: JSONValue) -> String {
        TextTable.printable("\(row["database"]?.asString ?? "").\(row["collection"]?.asString ?? "")")
    }

    /// The current leaf revisions of the two branches.
    private static func sides(_ row: JSONValue) -> (RevisionID, RevisionID)? {
        pair("\(row["local"]?["rev"]?.asString ?? ""),\(row["remote"]?["rev"]?.asString ?? "")")
    }

    private static func pair(_ text: String) -> (RevisionID, RevisionID)? {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count == 2, let local = try? RevisionID(known: String(parts[0])), let remote = try? RevisionID(known: String(parts[1])) else { return nil }
        return (local, remote)
    }

    private static func advice(_ row: JSONValue) -> String {
        guard let sides = sides(row) else { return "" }
        return """

            Decide it with --take local (here), --take remote (there), --take delete, or --document FILE, and
              --db \(place(row)) --seen \(sides.0),\(sides.1)

            """
    }
}
