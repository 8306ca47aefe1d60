import Agent
import ArgumentParser
import Documents
import Encodings
import Glibc
import NIOCore
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
            status 1 if a line failed or is in conflict; the others are stored. If the agent stops in the meantime, the error says what was \
            stored and with which line to go on; where it is killed, nobody can say, and the whole file is imported again.

            A line with _collection is of that collection of the database, as nightjar export --all-collections writes it. With --blobs the blobs that \
            the lines name are taken from a folder, as nightjar export --blobs writes it or a backup has it, unless the database has them; a file whose \
            bytes are not those of its name is refused. Exit status 1 if one is missing or refused; the documents are stored. Without --blobs a line \
            that names a blob which the database has not got fails: its document could be given to nobody.

            Where no agent runs and there is no such database or collection yet, it is created, unless the input has lines and none of them can be \
            stored; a validate plugin is asked about them, too.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
    @Argument(help: "The file; standard input if absent.", completion: .file()) var file: String?
    @Option(help: ArgumentHelp("A folder with the blobs that the lines name.", valueName: "folder"), completion: .directory) var blobs: String?
    @Flag(help: "Print the counts as JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let input = try InputFile(file)
            // A pipe has different contents each time, whatever its name.
            let source = input.size == nil ? nil : file.flatMap { $0 == "-" ? nil : $0.split(separator: "/").last.map(String.init) }
            defer { input.close() }
            if let blobs, access(blobs, X_OK) != 0 { throw AgentError(.failed, "\(blobs): \(String(cString: strerror(errno)))") }
            let folder = blobs.map { BlobFolder($0) }
            let pieces = ImportPieces(input)
            let absence = DocumentPlace.Absence.createsAndReports { [withoutBlobs = blobs != nil] absent, options, judge in
                try await pieces.findDocument(source: source, withoutBlobs: withoutBlobs, of: absent, options, judge)
            }
            let counts: DocumentAccess.ImportCounts
            do {
                counts = try await location.withDocuments(of: db, absence: absence) { place in
                    let progress = Progress()
                    defer { progress.clear() }
                    let read = Mutex(0)
                    let next: @Sendable () throws -> ByteBuffer? = {
                        guard let piece = try pieces.next() else { return nil }
                        let bytes = read.withLock { bytes in
                            bytes += piece.readableBytes
                            return bytes
                        }
                        let bar = input.size.map { "\(Progress.bar(bytes, of: $0)) " } ?? ""
                        progress.show("\(bar)\(bytes >> 10) KiB, \(progress.rate(bytes) >> 10) KiB/s")
                        return piece
                    }
                    guard let folder else { return try await place.importLines(source: source, next) }
                    return try await Self.importLines(source: source, folder, place, next)
                }
            } catch let nothing as ImportPieces.NoDocument {
                counts = nothing.counts
                Output.errorLine("nightjar: \(input.name) holds no line that can be stored: \(nothing.absent.words) was not created")
            }
            for problem in counts.problems { Output.errorLine("nightjar: \(TextTable.printable(problem))") }
            if counts.moreProblems > 0 {
                Output.errorLine("nightjar: and \(Plural.count(counts.moreProblems, "line")) more; import the file again once these are fixed to see them")
            }
            if json {
                guard case .object(var object) = counts.json else { return }
                if let folder {
                    object["blobs"] = .int(folder.copied)
                    object["blobs_missing"] = .int(folder.problems.count)
                }
                Output.json(.object(object))
            } else {
                let copied = folder.map { ", \(Plural.count($0.copied, "blob")) stored" } ?? ""
                Output.line("\(counts.saved) saved, \(counts.unchanged) unchanged, \(Plural.count(counts.conflicts, "conflict")), \(counts.failed) failed\(copied)")
            }
            try folder?.check("that the lines name could not be stored; the documents are, and their replication waits for those")
            if counts.conflicts > 0 || counts.failed > 0 { throw ExitCode(Failure.failed) }
        }
    }

    /// Imports some lines at a time, each time the blobs first, because stored blobs that no document refers to are collected after a while.
    private static func importLines(
        source: String?, _ folder: BlobFolder, _ place: DocumentPlace, _ next: @Sendable () throws -> ByteBuffer?
    ) async throws -> DocumentAccess.ImportCounts {
        var counts = DocumentAccess.ImportCounts(source: source)
        var splitter = LineSplitter()
        var isEnd = false
        while !isEnd {
            if let piece = try next() { splitter.append(piece.readableBytesView) } else { isEnd = true }
            while let batch = splitter.take(500, isEnd: isEnd) {
                try await folder.store(batch, in: place)
                // A line that is too long separates the others.
                for part in batch.split(maxSplits: .max, omittingEmptySubsequences: false, whereSeparator: { $0 == .tooLong }).enumerated() {
                    if part.offset > 0 { counts.failLongLine() }
                    guard !part.element.isEmpty else { continue }
                    do { counts.add(try await importLines(part.element, after: counts.lines, source: source, place)) } catch let error as AgentError where counts.lines > 0 {
                        throw AgentError(
                            error.kind, "\(error); before these lines: \(counts.saved) saved, \(counts.unchanged) unchanged, \(Plural.count(counts.conflicts, "conflict")), \(counts.failed) failed")
                    }
                }
            }
        }
        return counts
    }

    private static func importLines(
        _ lines: ArraySlice<ImportedLine>, after count: Int, source: String?, _ place: DocumentPlace
    ) async throws -> DocumentAccess.ImportCounts {
        var text = ByteBuffer()
        for case .text(let line) in lines {
            text.writeBytes(line)
            text.writeInteger(UInt8(ascii: "\n"))
        }
        let left = Mutex<ByteBuffer?>(text)
        return try await place.importLines(source: source, after: count, withoutBlobs: true) {
            left.withLock { left in
                defer { left = nil }
                return left
            }
        }
    }
}
