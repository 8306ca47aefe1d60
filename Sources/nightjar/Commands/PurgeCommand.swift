import ArgumentParser
import Documents

struct PurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge", abstract: "Removes a document with all its revisions, here only. Exit status 1 if there is none.",
        discussion: """
            Unlike rm it leaves no tombstone: peers are not told, and one that changes the document later brings it back. For what must \
            not be stored here any more, and for documents that are damaged.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The document's id.") var id: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            try await location.withDocuments(of: db) { try await $0.purge(id) }
            if json { Output.json(["ok": true, "id": .string(id)]) } else { Output.line("\(TextTable.printable(id))\tpurged") }
        }
    }
}
