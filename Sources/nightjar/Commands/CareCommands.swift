import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import DocumentStore
import Encodings
import Environment
import Glibc
import NIOPosix

struct CompactCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compact", abstract: "Gives room back to the disk: blobs and bodies that nothing needs, and free pages of the file.",
        discussion: "A running agent does it once a day. Writes go on meanwhile.")

    @OptionGroup var location: LocationOptions
    @Argument(help: "The database.") var db: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let report = try await location.withDocuments(of: db) { place in
                switch place {
                case .agent(let agent, let name):
                    try await agent.request("POST", "/api/databases/\(PercentEncoding.encode(name))/compact", timeout: nil)
                case .folder(let access): DatabaseCare.report(try await access.database.compact())
                }
            }
            if json { return Output.json(report) }
            let removed = report["blobs_removed"]?.asInt64 ?? 0, waiting = report["blobs_waiting"]?.asInt64 ?? 0
            Output.line(
                "\(StatusText.bytes(report["bytes_freed"])) freed in the file, \(Plural.count(removed, "blob")) removed"
                    + (removed > 0 ? " (\(StatusText.bytes(report["blob_bytes_freed"])))" : ""))
            if waiting > 0 {
                Output.line(
                    "\(Plural.count(waiting, "blob")) (\(StatusText.bytes(report["blob_bytes_waiting"]))) that nothing names \(waiting == 1 ? "is" : "are") kept until "
                        + "\(report["blobs_wait_until"]?.asString ?? "?") for documents that may be on their way; compact again after that")
            }
        }
    }
}

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copies a database as it is now into a folder, while it is at work, and verifies the copy.",
        discussion: """
            The folder is made by the agent, where one runs, and belongs to its user. It holds db.sqlite3, blobs and backup.json with the sum. \
            nightjar restore makes a database of it; --verify only reads one that is there.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "The database; with --verify a backup's folder.") var db: String
    @Argument(help: "The folder to be made.") var folder: String?
    @Flag(help: "Read a backup that is there, whole, and change nothing.") var verify = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if !verify, folder == nil { throw ValidationError("name the folder to be made") }
        if verify, folder != nil { throw ValidationError("--verify takes one folder") }
    }

    func run() async throws {
        try await Failure.reporting {
            if verify { return show(DatabaseCare.report(try VerifiedBackup.facts(db)), "is whole") }
            let target = AbsoluteFolder.make(folder ?? "")
            let report = try await location.withDocuments(of: db) { place in
                switch place {
                case .agent(let agent, let name):
                    try await agent.request(
                        "POST", "/api/databases/\(PercentEncoding.encode(name))/backup?to=\(PercentEncoding.encode(target))", timeout: nil)
                case .folder(let access): DatabaseCare.report(try await access.database.backUp(to: target))
                }
            }
            show(report, "made and verified: \(target)")
        }
    }

    private func show(_ report: JSONValue, _ what: String) {
        if json { return Output.json(report) }
        Output.line(
            "backup of \(report["database"]?.asString ?? "?") at \(report["made_at"]?.asString ?? "?"), \(Plural.count(report["documents"]?.asInt64 ?? 0, "document")), "
                + "\(Plural.count(report["blobs"]?.asInt64 ?? 0, "blob")), \(StatusText.bytes(report["bytes"])): \(what)")
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Makes a database of a backup, after reading the whole backup.",
        discussion: """
            No agent may run on the data folder. A database that is there already is left alone, unless --replace is given: then it is kept as \
            NAME.nightjar.before-TIME, to be removed by hand. For its peers the restored database is a new one: each looks at everything again once, \
            so that what was written after the backup comes back from those that have it and push it.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "The backup's folder.") var folder: String
    @Option(name: .customLong("as"), help: ArgumentHelp("Another name for the database.", valueName: "name")) var name: String?
    @Flag(help: "Take the place of a database that is there, which is kept under another name.") var replace = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let settings = try location.place()
            let data = settings.data.value
            guard try AgentClient.find(settings, group: MultiThreadedEventLoopGroup.singleton) == nil else {
                throw AgentError(.failed, "an agent runs on \(data): stop it first")
            }
            let facts = try VerifiedBackup.facts(folder)
            let name = name ?? facts.database
            try DatabaseFolders.check(name)
            try Folders.make(data)
            let target = "\(data)/\(name).nightjar"
            var kept: String?
            if access(target, F_OK) == 0 || access("\(target).known", F_OK) == 0 {
                guard replace else { throw AgentError(.conflict, "there is a database \(name) in \(data): give --replace, or another name with --as") }
                kept = try DatabaseFolders.setAside(target)
            }
            do { _ = try BackupRestoring.restore(folder, to: target, name: name) } catch {
                if let kept { DatabaseFolders.putBack(kept, target) }
                throw error
            }
            if json { return Output.json(DatabaseCare.report(facts)) }
            Output.line("restored \(Plural.count(facts.documents, "document")) and \(Plural.count(facts.blobs, "blob")), \(StatusText.bytes(DatabaseCare.report(facts)["bytes"])), to \(target)")
            if self.name != nil {
                Output.line("the agent opens it once the configuration has it: add \(name): {} under databases, and name it at the listeners that are to serve it")
            }
            if let kept { Output.line("what was there before is \(kept): remove it when nothing is missed") }
        }
    }
}

/// A backup that was read whole.
enum VerifiedBackup {
    static func facts(_ folder: String) throws -> BackupFacts {
        // Written last: without it there is nothing to restore.
        if access("\(folder)/backup.json", F_OK) != 0, [ENOENT, ENOTDIR].contains(errno) {
            throw AgentError(.failed, "\(folder) is no backup, or one that was not finished: \(folder)/backup.json is not there. Name a folder that nightjar backup made")
        }
        do { return try BackupRestoring.verify(folder) } catch StoreError.corrupt(let path, let detail) {
            // What mends a database at work is no advice here.
            throw AgentError(.failed, "this backup is not whole: \(path) is damaged (\(detail)); use another one, or make it anew")
        }
    }
}

/// Paths for an agent whose current folder is another.
enum AbsoluteFolder {
    static func make(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        guard let current = getcwd(&buffer, buffer.count) else { return path }
        return "\(String(cString: current))/\(path)"
    }
}

extension DatabaseFolders {
    /// Names that a configuration could have.
    static func check(_ name: String) throws {
        let isRight = !name.isEmpty && name.utf8.count <= 239 && name.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
        }
        guard isRight, name.utf8.first.map({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) == true else {
            throw AgentError(.invalid, "\"\(name)\" is no name for a database: expected a-z, then a-z, 0-9, _ and -")
        }
    }

    /// Gives a database's folder another name, and its sign with it.
    static func setAside(_ folder: String) throws -> String {
        let kept = "\(folder).before-\(Environment.system.time.wallSeconds())"
        if access(folder, F_OK) == 0, rename(folder, kept) != 0 { throw AgentError(.failed, "\(folder): \(String(cString: strerror(errno)))") }
        _ = rename("\(folder).known", "\(kept).known")
        return kept
    }

    static func putBack(_ kept: String, _ folder: String) {
        _ = rename(kept, folder)
        _ = rename("\(kept).known", "\(folder).known")
    }
}
