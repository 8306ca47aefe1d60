import Agent
import ArgumentParser
import Documents
import Encodings

struct AuditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Shows who did what: actions over the admin API, failed logins, plugin changes, purges.",
        discussion: "Reads DATA/audit.log and the four files before it, of up to 1 MiB each, with or without a running agent.")

    @OptionGroup var location: LocationOptions
    @Option(help: "How many of the last entries to show.") var limit = 200
    @Flag(help: "Print JSON, one object a line.") var json = false

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit must be at least 1") }
    }

    func run() async throws {
        try await Failure.reporting {
            // One more tells whether the limit leaves something out.
            var lines = try AuditLog.last(limit < .max ? limit + 1 : limit, dataFolder: try location.place().data.value)
            if lines.count > limit {
                lines.removeFirst(lines.count - limit)
                Output.errorLine("nightjar: only the last \(Plural.count(limit, "entry", "entries")) of the log; --limit shows more")
            }
            if json { return Output.write(1, lines.flatMap { $0 + [UInt8(ascii: "\n")] }) }
            if lines.isEmpty { return Output.line("nothing is recorded") }
            var table = TextTable(["TIME", "WHO", "FROM", "ACTION", "TARGET", "OUTCOME", "REPEATED"])
            for line in lines {
                let entry = try JSONValue(parsing: line)
                let document = entry["document"]?.asString.map { " \($0)" } ?? ""
                table.add(
                    ["time", "who", "from", "action"].map { entry[$0]?.asString ?? "" } + ["\(entry["target"]?.asString ?? "")\(document)", entry["outcome"]?.asString ?? ""]
                        + [entry["repeated"]?.asInt64.map { "\($0) more" } ?? ""])
            }
            Output.write(1, table.text)
        }
    }
}
