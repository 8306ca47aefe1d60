import Agent
import ArgumentParser
import Documents
import Encodings
import Synchronization

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes all documents of a collection as JSON Lines, in the order of their last change.",
        discussion: "Blobs are not in it: nightjar backup keeps them, and nightjar blob get writes one. Of a damaged database it writes all that can be read, names the rest on standard error, and ends with status 1.")

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The file, complete once it is there; standard output if absent.") var file: String?
    @Flag(help: "Deleted documents too.") var deleted = false
    @Flag(help: "Print the counts as JSON; on standard error if the documents are on standard output.") var json = false

    func run() async throws {
        try await Failure.reporting {
            try await location.withDocuments(of: db) { place in
                let output = try OutputFile(file)
                let progress = Progress()
                let counts = Mutex((documents: 0, bytes: 0, unreadable: 0, mayNameBlobs: false))
                do {
                    try await place.export(includesDeleted: deleted) { piece in
                        try output.write(piece)
                        let lines = DocumentLines.count(piece)
                        let documents = counts.withLock { counts in
                            counts.documents += lines
                            counts.bytes += piece.readableBytes
                            // By what every reference has; a text that quotes one has it as well.
                            counts.mayNameBlobs = counts.mayNameBlobs || piece.withUnsafeReadableBytes { $0.holds("\"blob\"") }
                            return counts.documents
                        }
                        progress.show("\(Plural.count(documents, "document")), \(progress.rate(documents))/s")
                    } unreadable: { message in
                        counts.withLock { $0.unreadable += 1 }
                        progress.clear()
                        Output.errorLine("nightjar: \(TextTable.printable(message))")
                    }
                    try output.finish()
                } catch {
                    progress.clear()
                    output.abandon()
                    throw error
                }
                progress.clear()
                let (documents, bytes, unreadable, mayNameBlobs) = counts.withLock { $0 }
                let isOnOutput = output.descriptor == 1
                if json {
                    let counts: JSONValue = ["documents": .int(documents), "bytes": .int(bytes), "unreadable": .int(unreadable)]
                    Output.write(isOnOutput ? 2 : 1, counts.text + "\n")
                } else if !isOnOutput || progress.isShown {
                    Output.write(isOnOutput ? 2 : 1, "\(Plural.count(documents, "document")), \(Plural.count(bytes, "byte"))\n")
                }
                if mayNameBlobs {
                    Output.errorLine("nightjar: documents name blobs, which are not in the export: nightjar backup keeps them, and the database's folder has them in blobs")
                }
                guard unreadable == 0 else {
                    throw AgentError(
                        .failed, "\(db) is damaged: \(Plural.count(unreadable, "part")) of it cannot be read; the other documents, \(documents), are exported")
                }
            }
        }
    }
}
