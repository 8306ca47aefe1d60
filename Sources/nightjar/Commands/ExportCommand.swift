import Agent
import ArgumentParser
import Documents
import Encodings
import NIOCore
import Synchronization

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes all documents of a collection, or of several, as JSON Lines, in the order of their last change.",
        discussion: """
            With --collection or --all-collections, and for DATABASE.SCOPE.COLLECTION, each line names its collection (_collection), one collection \
            after the other, and nightjar import puts each where it was; lines without are of the default collection. With --blobs the blobs and attachments that the documents name are written into a folder, each as a file named by the hexadecimal \
            digits of its digest; those that are there already are left alone, so that an export can be repeated. Without it they are not in the \
            export: nightjar backup keeps them, and nightjar blob get writes one. From a damaged database it writes all that can be read, names the rest \
            on standard error, and ends with status 1.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The file, which appears only once it is complete; standard output if absent.", completion: .file()) var file: String?
    @Option(help: ArgumentHelp("A collection, NAME or SCOPE.NAME; may be given several times.", valueName: "name")) var collection: [String] = []
    @Flag(help: "Every collection of the database.") var allCollections = false
    @Option(help: ArgumentHelp("A folder for the blobs that the documents name; it is created if it does not exist.", valueName: "folder"), completion: .directory) var blobs: String?
    @Flag(help: "Deleted documents too.") var deleted = false
    @Flag(help: "Print the counts as JSON; on standard error if the documents are on standard output.") var json = false

    func validate() throws {
        if allCollections, !collection.isEmpty { throw ValidationError("give --collection or --all-collections, not both") }
        if allCollections || !collection.isEmpty, db.utf8.contains(UInt8(ascii: ".")) {
            throw ValidationError("\(db) names a collection already: give the database alone")
        }
    }

    func run() async throws {
        try await Failure.reporting {
            let first = collection.first.map { "\(db).\($0)" } ?? db
            try await location.withDocuments(of: first) { place in
                let names = allCollections ? try await place.collections() : try collection.map { try CollectionName(parsing: $0) }
                let places = names.isEmpty ? [place] : try names.map { try place.place(of: $0) }
                let folder = blobs.map { BlobFolder($0) }
                let wanted = try folder?.wanted()
                // For a collection other than the default one, each line names it, because an import would otherwise store the line in the default
                // collection.
                let namesCollection = try !names.isEmpty || !DocumentAccess.parse(db).collection.isDefault
                let output = try OutputFile(file)
                let progress = Progress()
                let counts = ExportCounts()
                do {
                    for place in places {
                        try await export(place, namesCollection: namesCollection, output, wanted, counts, progress)
                    }
                    try output.finish()
                    try await wanted?.write(from: place) { progress.show("\(Plural.count($0, "blob"))") }
                } catch {
                    progress.clear()
                    output.abandon()
                    wanted?.abandon()
                    throw error
                }
                progress.clear()
                try tell(counts.now, blobs: folder, isOnOutput: output.descriptor == 1, isShown: progress.isShown)
            }
        }
    }

    private func export(
        _ place: DocumentPlace, namesCollection: Bool, _ output: OutputFile, _ wanted: BlobFolder.Wanted?, _ counts: ExportCounts, _ progress: Progress
    ) async throws {
        try await place.export(includesDeleted: deleted, namesCollection: namesCollection) { piece in
            try output.write(piece)
            try wanted?.add(piece)
            let documents = counts.add(piece)
            progress.show("\(Plural.count(documents, "document")), \(progress.rate(documents))/s")
        } unreadable: { message in
            counts.addUnreadable()
            progress.clear()
            Output.errorLine("nightjar: \(TextTable.printable(message))")
        }
    }

    private func tell(_ counts: ExportCounts.Numbers, blobs: BlobFolder?, isOnOutput: Bool, isShown: Bool) throws {
        if json {
            var members: [JSONObject.Member] = [
                .init(key: "documents", value: .int(counts.documents)), .init(key: "bytes", value: .int(counts.bytes)),
                .init(key: "unreadable", value: .int(counts.unreadable)),
            ]
            if let blobs {
                members += [.init(key: "blobs", value: .int(blobs.copied)), .init(key: "blobs_missing", value: .int(blobs.problems.count))]
            }
            Output.write(isOnOutput ? 2 : 1, JSONValue.object(JSONObject(members)).text + "\n")
        } else if !isOnOutput || isShown {
            let copied = blobs.map { ", \(Plural.count($0.copied, "blob"))" } ?? ""
            Output.write(isOnOutput ? 2 : 1, "\(Plural.count(counts.documents, "document")), \(Plural.count(counts.bytes, "byte"))\(copied)\n")
        }
        if counts.mayNameBlobs, blobs == nil {
            Output.errorLine("nightjar: documents name blobs or attachments, which are not in the export: --blobs FOLDER writes them beside it, and nightjar backup keeps them")
        }
        guard counts.unreadable == 0 else {
            throw AgentError(
                .failed,
                "\(db) is damaged: \(Plural.count(counts.unreadable, "part")) of it cannot be read; the other documents, \(counts.documents), are exported")
        }
        try blobs?.check("that documents name could not be written; all others are, and the documents")
    }
}

/// The counts of an export, updated with each piece.
private final class ExportCounts: Sendable {
    struct Numbers: Sendable {
        var documents = 0
        var bytes = 0
        var unreadable = 0
        var mayNameBlobs = false
    }

    private let numbers = Mutex(Numbers())

    var now: Numbers { numbers.withLock { $0 } }

    /// - Returns: the number of documents so far.
    func add(_ piece: ByteBuffer) -> Int {
        let lines = DocumentLines.count(piece)
        return numbers.withLock { numbers in
            numbers.documents += lines
            numbers.bytes += piece.readableBytes
            // Every blob reference contains one of these; so may a text that quotes one.
            numbers.mayNameBlobs = numbers.mayNameBlobs || piece.withUnsafeReadableBytes { $0.holds("\"blob\"") || $0.holds("\"_attachments\"") }
            return numbers.documents
        }
    }

    func addUnreadable() { numbers.withLock { $0.unreadable += 1 } }
}
