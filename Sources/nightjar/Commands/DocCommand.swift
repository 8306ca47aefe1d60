import Agent
import ArgumentParser
import Documents
import Environment
import Glibc
import Synchronization

struct DocCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doc", abstract: "Reads and edits documents.",
        discussion: """
            DB is DATABASE or DATABASE.SCOPE.COLLECTION. Works on a running agent, or on the data folder if none runs there. \
            Documents are JSON as CouchDB writes it: _id, _rev, _deleted, then the body.
            """,
        subcommands: [Get.self, Put.self, Remove.self, PurgeCommand.self, List.self, Unrouted.self, DocWhyCommand.self])

    /// `max_input`: bytes of a document on standard input; the store's own limit is lower and its error more precise.
    static let maximumInput = 64 << 20

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "get", abstract: "Prints a document. Exit status 1 if there is none, or it is deleted.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
        @Argument(help: "The document's id.") var id: String
        @Flag(help: "Print JSON; this is the default anyway.") var json = false
        @Flag(name: .customLong("cv"), help: "Print its version and version vector as well, _cv and _vv, if it has them.") var withVersion = false

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) {
                    Output.write(1, DocCommand.asLine(try await $0.get(id, withVersion: withVersion)))
                }
            }
        }
    }

    struct Put: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "put", abstract: "Saves a document.",
            discussion: """
                _rev in the document names the revision that it replaces; without it the document must be a new one. Where it has \
                changed since that revision, the database's conflict_resolver decides, if it has one; else exit status 1. --on-conflict \
                says something else for this save.
                """)

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
        @Argument(help: "The document's id.") var id: String
        @Argument(help: "The document; from standard input if absent or -.") var document: String?
        @Option(help: ArgumentHelp(
            "If the document is at a revision other than _rev: resolve (the default), fail, overwrite (what is saved wins, whatever _rev says), or plugin:NAME.",
            valueName: "what"))
        var onConflict: String?
        @Flag(help: "Print JSON.") var json = false

        func validate() throws {
            do { _ = try onConflict.map { text throws(AgentError) in try SaveConflict(text) } } catch { throw ValidationError("--on-conflict: \(error)") }
        }

        func run() async throws {
            try await Failure.reporting {
                let bytes = try given() ?? InputFile(nil).all(limit: DocCommand.maximumInput)
                let conflict = try onConflict.map { text throws(AgentError) in try SaveConflict(text) } ?? .resolve
                let absence = DocumentPlace.Absence.createsAndReports { [id] absent, options, judge in
                    try await DocumentAccess.checkFirst(
                        id, bytes, onConflict: conflict, of: absent, options, now: Environment.system.time.wallSeconds(), judge)
                }
                try await location.withDocuments(of: db, absence: absence) { place in
                    DocCommand.show(try await place.put(id, bytes, onConflict: onConflict), json: json)
                }
            }
        }

        /// The document given as an argument; nil for standard input.
        private func given() throws -> [UInt8]? {
            guard let document, document != "-" else { return nil }
            let isText = document.utf8.contains { [UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\"")].contains($0) }
            // The argument looks like the name of a file.
            let isThere = !isText && access(document, F_OK) == 0
            if isThere || !isText && (document.hasSuffix(".json") || document.utf8.contains(UInt8(ascii: "/"))) {
                let way = "a file's content is given on standard input: nightjar doc put \(db) \(id) < \(isThere ? document : "FILE")"
                throw AgentError(
                    .invalid, isThere ? "\(document) is the name of a file, and the document itself is expected; \(way)"
                        : "\(document) is not a JSON object, and there is no file of that name either; \(way)")
            }
            return Array(document.utf8)
        }
    }

    /// The document as it was saved, with a trailing newline if it has none.
    private static func asLine(_ json: [UInt8]) -> [UInt8] {
        let ends = [UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        return json.prefix(1 + (json.lastIndex { !ends.contains($0) } ?? -1)) + [UInt8(ascii: "\n")]
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rm", abstract: "Deletes a document. Exit status 1 if there is none.", aliases: ["delete"])

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
        @Argument(help: "The document's id.") var id: String
        @Option(help: "Delete it only if this is its newest revision.") var rev: String?
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) { DocCommand.show(try await $0.remove(id, revision: rev), json: json) }
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the documents in the order of their last change: id and revision, separated by a tab.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
        @Flag(help: "Deleted documents too.") var deleted = false
        @Flag(help: "Print a JSON array.") var json = false

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) { place in
                    let printer = ListPrinter(json: json)
                    try await place.list(includesDeleted: deleted) { try printer.add($0) }
                    try printer.finish()
                }
            }
        }
    }

    struct Unrouted: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "unrouted", abstract: "Lists the documents that a sync function could not put into channels, and why.",
            discussion: """
                No peer gets them but those that may pull everything. They are tried again when a version of the plugin comes into force, \
                when the agent starts, and on "nightjar plugin retry".
                """)

        @OptionGroup var location: LocationOptions
        @Argument(help: "DATABASE or DATABASE.SCOPE.COLLECTION.") var db: String
        @Flag(help: "Print a JSON array.") var json = false

        func run() async throws {
            try await Failure.reporting {
                try await location.withDocuments(of: db) { place in
                    if json {
                        let printer = ListPrinter(json: true)
                        try await place.unrouted { try printer.add($0.serialize()) }
                        return try printer.finish()
                    }
                    let table = Mutex(TextTable(["ID", "PLUGIN", "VERSION", "ERROR"]))
                    try await place.unrouted { row in
                        table.withLock { $0.add(["id", "plugin", "version", "error"].map { row[$0]?.asString ?? "-" }) }
                    }
                    table.withLock { table in
                        if table.isEmpty { Output.line("no document is unrouted") } else { Output.write(1, table.text) }
                    }
                }
            }
        }
    }

    private static func show(_ saved: DocumentPlace.Saved, json: Bool) {
        if json { Output.json(saved.json) } else { Output.line("\(TextTable.printable(saved.id))\t\(saved.revision)") }
    }
}
