import Agent
import ArgumentParser
import Documents
import Encodings

struct DocWhyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "why", abstract: "Says why a document did not arrive: its state for each replicator and each connected peer.",
        discussion: """
            Asks the running agent. Each line is a word (sent, pending, held, rejected, refused, refused_here, waiting, waiting_for_room, excluded, ...) with \
            what is known and, behind an arrow, what to do. Also answers for documents that are not here. Exit status 1 if there is no agent, no \
            such database or no such collection; 3 if nothing here knows the id (unknown).
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The document's id.") var id: String
    @Option(help: "The document's collection, where DB does not name it (default: the default collection).") var collection: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            var place = db
            if let collection {
                guard !db.utf8.contains(UInt8(ascii: ".")) else { throw AgentError(.invalid, "\(db) names a collection already; leave --collection out") }
                place += ".\(collection)"
            }
            let agent = try location.agent()
            let answer = try await agent.request("GET", "/api/databases/\(PercentEncoding.encode(place))/why/\(PercentEncoding.encode(id))")
            if json { Output.json(answer) } else { Output.write(1, WhereaboutsText.text(answer)) }
            if answer["document"]?["state"]?.asString == "unknown" { throw ExitCode(Failure.unknownDocument) }
        }
    }
}
