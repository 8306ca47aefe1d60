import Agent
import ArgumentParser
import Documents
import Synchronization

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes all documents as JSON Lines, in the order of their last change.")

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
                let counts = Mutex((documents: 0, bytes: 0))
                do {
                    try await place.export(includesDeleted: deleted) { piece in
                        try output.write(piece)
                        let lines = DocumentLines.count(piece)
                        let documents = counts.withLock { counts in
                            counts.documents += lines
                            counts.bytes += piece.readableBytes
                            return counts.documents
                        }
                        progress.show("\(documents) documents, \(progress.rate(documents))/s")
                    }
                    try output.finish()
                } catch {
                    progress.clear()
                    output.abandon()
                    throw error
                }
                progress.clear()
                let (documents, bytes) = counts.withLock { $0 }
                let isOnOutput = output.descriptor == 1
                if json {
                    let counts: JSONValue = ["documents": .int(documents), "bytes": .int(bytes)]
                    Output.write(isOnOutput ? 2 : 1, counts.text + "\n")
                } else if !isOnOutput || progress.isShown {
                    Output.write(isOnOutput ? 2 : 1, "\(documents) documents, \(bytes) bytes\n")
                }
            }
        }
    }
}
