import Agent
import ArgumentParser
import Documents
import Encodings

struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "Says what a code that the agent reports means, and what to do about it.",
        usage: """
            nightjar explain CODE …
            nightjar explain
            """,
        discussion: """
            CODE is what status, health, the log, metrics or an answer say: documents_held, http/401, "TLS 8", plugin_timeout, insufficient_storage, \
            max_blob_bytes, exit/78, or the number that applications in this field show, such as 11006. Several codes are explained \
            one after the other. Without CODE all of them are listed. Exit status 1 if one of them is not known.
            """)

    @Argument(help: "A code as the agent writes it; without one all are listed.") var code: [String] = []
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Print all of them as a page of Markdown.") var markdown = false

    func run() async throws {
        try await Failure.reporting {
            if markdown { return Output.write(1, Self.page()) }
            if code.isEmpty { return list() }
            let (found, unknown) = ExplanationSearch.findAll(code)
            if !found.isEmpty {
                if json {
                    Output.json(found.count == 1 && unknown.isEmpty ? Self.json(found[0]) : .array(found.map(Self.json)))
                } else {
                    Output.line(found.map { "\($0.code)\n  cause: \($0.cause)\n  mend:  \($0.mend)" }.joined(separator: "\n"))
                }
            }
            if !unknown.isEmpty { throw AgentError(.notFound, unknown.map(Self.refusal).joined(separator: "; ")) }
        }
    }

    private static func refusal(_ text: String) -> String {
        let similar = ExplanationSearch.similar(text)
        return "there is no code \"\(TextTable.printable(text))\"; "
            + (similar.isEmpty ? "nightjar explain lists all of them" : "did you mean \(similar.joined(separator: ", "))?")
    }

    private func list() {
        if json { return Output.json(.array(Explanation.all.map(Self.json))) }
        for group in Explanation.Group.allCases {
            Output.line("\(group.rawValue):")
            for entry in group.explanations { Output.line("  \(entry.code): \(entry.cause)") }
            Output.line("")
        }
        Output.line("nightjar explain CODE says what to do.")
    }

    private static func page() -> String {
        var text = "# Troubleshooting: every code\n\nMade by `nightjar explain --markdown`; `nightjar explain CODE` is one of them.\n"
        for group in Explanation.Group.allCases {
            text += "\n## \(group.rawValue.prefix(1).uppercased())\(group.rawValue.dropFirst())\n\n| code | cause | what to do |\n| --- | --- | --- |\n"
            for entry in group.explanations {
                let cells = ["`\(entry.code)`", entry.cause, entry.mend].map { $0.with("|", replacedBy: "\\|").with("<", replacedBy: "&lt;") }
                text += "| \(cells.joined(separator: " | ")) |\n"
            }
        }
        return text
    }

    private static func json(_ entry: Explanation) -> JSONValue {
        JSONOutput.object(["code": .string(entry.code), "cause": .string(entry.cause), "mend": .string(entry.mend)])
    }
}
