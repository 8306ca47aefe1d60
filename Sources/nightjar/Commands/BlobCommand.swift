import Agent
import ArgumentParser
import Documents
import Synchronization

struct BlobCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blob", abstract: "Stores, reads and lists blobs: the binary content that documents refer to by digest.",
        discussion: """
            Works on a running agent, or on the data folder if none runs there. A document refers to a blob as \
            {"@type": "blob", "digest": DIGEST, "length": N, "content_type": TYPE}. A blob that no document names is collected \
            an hour after it was stored at the earliest.
            """,
        subcommands: [Put.self, Get.self, List.self])

    struct Put: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "put", abstract: "Stores a file and prints its digest.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE.") var db: String
        @Argument(help: "The file; standard input if absent.", completion: .file()) var file: String?
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let input = try InputFile(file)
                defer { input.close() }
                let stored = try await location.withDocuments(of: db, absence: .createsAndReports()) { try await $0.putBlob { try input.next() } }
                if json { Output.json(stored) } else { Output.line(stored["digest"]?.asString ?? "") }
            }
        }
    }

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "get", abstract: "Writes a blob to standard output. Exit status 1 if there is none, or its file was altered.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE.") var db: String
        @Argument(help: "The digest, sha1-….") var digest: String

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) { place in
                    try await place.blob(digest) { piece in try piece.withUnsafeReadableBytes { try Output.writeAll(1, $0) } }
                }
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the blobs: digest, length, and whether a document names it.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE.") var db: String
        @Flag(help: "Print a JSON array.") var json = false

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) { place in
                    if json {
                        let printer = ListPrinter(json: true)
                        try await place.blobs { try printer.add($0) }
                        return try printer.finish()
                    }
                    try await place.blobs { row in
                        let row = try JSONValue(stored: row)
                        let use = row["referenced"]?.asBool == true ? "referenced" : "unreferenced"
                        Output.line("\(row["digest"]?.asString ?? "")\t\(row["length"]?.text ?? "")\t\(use)")
                    }
                }
            }
        }
    }
}
