import Agent
import ArgumentParser
import Documents
import Encodings
import Environment

struct ResyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resync", abstract: "Runs a changed sync function on the stored documents, and moves them to the channels that it assigns.",
        discussion: """
            A new version of a sync function judges what is written from then on: what is stored keeps its channels, and users what documents grant them. \
            Here the current version is asked about the current revision of each document and tombstone, as about what is written on this machine: the \
            require_ functions pass, and old_doc is nil. What enters a user's channels is offered to it, what leaves them is taken away.

            What the function rejects (REJECTED) is in no channel afterwards: nightjar doc unrouted lists it. Where it fails (FAILED), documents keep the \
            channels they have, and the exit status is 1: fix the plugin and resync again.

            The agent does the work, a few documents at a time, and continues if this command is interrupted; nightjar status shows how far it has come. Where \
            the agent is restarted meanwhile, give the command again: health says so (channels_outdated).
            """)

    /// `resync_poll`: milliseconds between two checks of the progress.
    private static let pollMilliseconds: UInt64 = 200

    @OptionGroup var location: LocationOptions
    @Argument(help: "The database.") var db: String
    @Option(help: "Only this collection: NAME or SCOPE.NAME.") var collection: String?
    @Option(help: ArgumentHelp("Only this document, of the default collection unless --collection names another.", valueName: "id")) var document: String?
    @Flag(help: "Change nothing: say which documents would change.") var dryRun = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let agent = try location.agent()
            let path = "/api/databases/\(PercentEncoding.encode(db))/resync"
            let query = [("collection", collection), ("document", document), ("dry_run", dryRun ? "true" : nil)].compactMap { key, value in
                value.map { "\(key)=\(PercentEncoding.encode($0))" }
            }
            var resync = try await agent.request("POST", query.isEmpty ? path : "\(path)?\(query.joined(separator: "&"))")
            let progress = Progress()
            while resync["state"]?.asString == "running" {
                let text = "\(resync["looked_at"]?.asInt64 ?? 0) of \(resync["total"]?.asInt64 ?? 0)"
                progress.show(text)
                try await Environment.system.time.sleep(nanoseconds: Self.pollMilliseconds * 1_000_000)
                resync = try await agent.request("GET", path)
            }
            progress.clear()
            if json { Output.json(resync) } else { show(resync) }
            if resync["state"]?.asString != "done" {
                throw AgentError(.failed, "the resync did not finish: \(resync["error"]?.asString ?? "the log says why")")
            }
            let failed = resync["failed"]?.asInt64 ?? 0
            if failed > 0 {
                throw AgentError(.failed, "sync failed on \(Plural.count(failed, "document")), which \(failed == 1 ? "keeps its" : "keep their") channels: fix the "
                    + "plugin and resync again")
            }
        }
    }

    private func show(_ resync: JSONValue) {
        func list(_ key: String, _ word: String) {
            let rows = resync["\(key)_documents"]?.asArray ?? []
            for row in rows {
                let collection = row["collection"]?.asString ?? "_default._default"
                let name = (resync["database"]?.asString ?? db) + (collection == "_default._default" ? "" : ".\(collection)")
                let error = row["error"]?.asString.map { ": \($0)" } ?? ""
                Output.line(TextTable.printable("\(word)  \(name) \(row["id"]?.asString ?? "?")\(error)"))
            }
            let more = (resync[key]?.asInt64 ?? 0) - Int64(rows.count)
            if more > 0 { Output.line("\(word)  and \(more) more") }
        }
        list("changed", dryRun ? "WOULD CHANGE" : "CHANGED")
        list("rejected", "REJECTED")
        list("failed", "FAILED")
        func count(_ key: String) -> Int64 { resync[key]?.asInt64 ?? 0 }
        Output.line(
            "looked at \(Plural.count(count("looked_at"), "document")): \(count("changed")) \(dryRun ? "would change" : "changed"), "
                + "\(count("rejected")) rejected, \(count("failed")) failed")
    }
}
