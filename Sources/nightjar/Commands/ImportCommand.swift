import Agent
import ArgumentParser
import Documents
import Encodings
import Synchronization

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Stores documents from JSON Lines.",
        discussion: """
            Each line is a document, and _id names it. A line without _rev is a new document; one with _rev continues that revision, or \
            is stored under it where the document does not exist, so that an export can be imported elsewhere. A line that says what \
            is stored already changes nothing: an import that was interrupted can be repeated.

            A line without _id gets one that is made of the file's name (without its folder), the line's number and its text, so that \
            repeating the file stores nothing twice. From standard input it gets a random id, and is another document each time. Exit \
            status 1 if a line failed or is in conflict; the others are stored. Where the agent stops meanwhile, the error says what was \
            stored and with which line to go on; where it is killed, nobody can say it, and the whole file is imported again.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The file; standard input if absent.") var file: String?
    @Flag(help: "Print the counts as JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let input = try InputFile(file)
            // A pipe brings something else each time, whatever it is called.
            let source = input.size == nil ? nil : file.flatMap { $0 == "-" ? nil : $0.split(separator: "/").last.map(String.init) }
            defer { input.close() }
            let counts = try await location.withDocuments(of: db, absence: .createsAndReports) { place in
                let progress = Progress()
                defer { progress.clear() }
                let read = Mutex(0)
                return try await place.importLines(source: source) {
                    guard let piece = try input.next() else { return nil }
                    let bytes = read.withLock { bytes in
                        bytes += piece.readableBytes
                        return bytes
                    }
                    let bar = input.size.map { "\(Progress.bar(bytes, of: $0)) " } ?? ""
                    progress.show("\(bar)\(bytes >> 10) KiB, \(progress.rate(bytes) >> 10) KiB/s")
                    return piece
                }
            }
            for problem in counts.problems { Output.errorLine("nightjar: \(TextTable.printable(problem))") }
            if counts.moreProblems > 0 {
                Output.errorLine("nightjar: and \(Plural.count(counts.moreProblems, "line")) more; import the file again once these are mended to see them")
            }
            if json {
                Output.json(counts.json)
            } else {
                Output.line("\(counts.saved) saved, \(counts.unchanged) unchanged, \(Plural.count(counts.conflicts, "conflict")), \(counts.failed) failed")
            }
            if counts.conflicts > 0 || counts.failed > 0 { throw ExitCode(Failure.failed) }
        }
    }
}
