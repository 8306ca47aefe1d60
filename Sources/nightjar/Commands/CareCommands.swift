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
        commandName: "compact", abstract: "Returns unused space to the disk: blobs and bodies that nothing needs, and free pages of the file.",
        discussion: "A running agent does this once a day. Writes continue in the meantime.")

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
        commandName: "backup", abstract: "Copies a database in its present state into a folder, while it is in use, and verifies the copy.",
        discussion: """
            The folder is made by the agent, where one runs, and belongs to its user. It holds db.sqlite3, blobs and backup.json with the checksum. \
            nightjar restore makes a database from it; --verify only reads an existing backup.

            A blob that is damaged or gone is left out: each is named on standard error, and the exit status is 1. The backup is made all the same, with \
            all else; nightjar restore accepts it with --without-damaged-blobs.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "The database; with --verify a backup's folder.") var db: String
    @Argument(help: "The folder to create.", completion: .directory) var folder: String?
    @Flag(help: "Verify an existing backup by reading all of it; changes nothing.") var verify = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if !verify, folder == nil { throw ValidationError("name the folder to create") }
        if verify, folder != nil { throw ValidationError("--verify takes one folder") }
    }

    func run() async throws {
        try await Failure.reporting {
            if verify {
                let report = DatabaseCare.report(try VerifiedBackup.facts(db))
                show(report, DamagedBlobs(report).count == 0 ? "is whole" : "is complete except for blobs")
                return try DamagedBlobs(report).check { "\($0) damaged or missing in \(db): nightjar restore accepts it with --without-damaged-blobs" }
            }
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
            try DamagedBlobs(report).check {
                "this backup is without \($0) that documents name: store each again from a copy (nightjar blob put \(db) FILE), for example from the folder blobs of "
                    + "an earlier backup, and make another backup; nightjar restore accepts this one with --without-damaged-blobs"
            }
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
        commandName: "restore", abstract: "Makes a database from a backup, after reading the whole backup.",
        discussion: """
            No agent may run on the data folder. A database that is there already is left alone, unless --replace is given: then it is kept as \
            NAME.nightjar.before-TIME, to be removed by hand. Everything is prepared in NAME.nightjar.restoring first: if that was interrupted, \
            give the same command again. For its peers the restored database is a new one: each looks at everything again once, so that what was written after the backup comes back from those that have it and push it.

            A backup with blobs that are damaged or not there is refused, and they are named. Put the right file into the backup's folder blobs, under the name \
            that is named; or give --without-damaged-blobs, and everything else is restored: peers get the documents that name those blobs once nightjar blob put has \
            stored them anew.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "The backup's folder.", completion: .directory) var folder: String
    @Option(name: .customLong("as"), help: ArgumentHelp("Another name for the database.", valueName: "name")) var name: String?
    @Flag(help: "Replace an existing database, which is kept under another name.") var replace = false
    @Flag(help: "Restore everything else if blobs of the backup are damaged or missing.") var withoutDamagedBlobs = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let settings = try location.place()
            let data = settings.data.value
            guard try AgentClient.find(settings, group: MultiThreadedEventLoopGroup.singleton) == nil else {
                throw AgentError(.failed, "an agent runs on \(data): stop it first")
            }
            let facts = try VerifiedBackup.facts(folder)
            let damaged = DamagedBlobs(DatabaseCare.report(facts))
            if !withoutDamagedBlobs {
                try damaged.check {
                    "\($0) damaged or missing in \(folder), nothing was restored: use another backup, put the right files into \(folder)/blobs, or give "
                        + "--without-damaged-blobs to restore everything else"
                }
            }
            let name = name ?? facts.database
            try DatabaseFolders.check(name)
            try Folders.make(data)
            let target = "\(data)/\(name).nightjar"
            var kept: String?
            if access(target, F_OK) == 0 {
                guard replace else { throw AgentError(.conflict, "there is a database \(name) in \(data): give --replace, or another name with --as") }
                kept = DatabaseFolders.asideName(target)
            } else if access(DatabaseFolders.sign(target), F_OK) == 0, !replace {
                throw AgentError(
                    .conflict,
                    "there was a database \(name) in \(data), and its folder is gone: mount its disk, if it has one of its own; if it is lost, restore it with --replace")
            }
            _ = try BackupRestoring.restore(folder, to: target, name: name, keeping: kept, withoutDamagedBlobs: withoutDamagedBlobs)
            for made in [target, DatabaseFolders.sign(target)] { try Ownership.give(made, toOwnerOf: data) }
            damaged.tell()
            if json { return Output.json(DatabaseCare.report(facts)) }
            Output.line("restored \(Plural.count(facts.documents, "document")) and \(Plural.count(facts.blobs, "blob")), \(StatusText.bytes(DatabaseCare.report(facts)["bytes"])), to \(target)")
            if self.name != nil {
                Output.line("the agent opens it once the configuration has it: add \(name): {} under databases, and name it at the listeners that are to serve it")
            }
            if damaged.count > 0 {
                Output.line(
                    "without \(Plural.count(damaged.count, "blob")) that documents name: store each again with nightjar blob put \(name) FILE; until then peers do "
                        + "not get those documents")
            }
            if let kept { Output.line("what was there before is \(kept): remove it when nothing is missed") }
        }
    }
}

/// The blobs that are missing from a backup, from its report.
private struct DamagedBlobs {
    /// `damaged_blobs_named`: how many are named; the rest are only counted.
    private static let shown = 20

    private let blobs: [JSONValue]
    let count: Int64

    init(_ report: JSONValue) {
        blobs = report["damaged_blobs"]?.asArray ?? []
        count = Int64(blobs.count) + (report["more_damaged_blobs"]?.asInt64 ?? 0)
    }

    /// Prints them on standard error.
    func tell() {
        for blob in blobs.prefix(Self.shown) {
            Output.errorLine("nightjar: blob \(TextTable.printable("\(blob["digest"]?.asString ?? "?"): \(blob["problem"]?.asString ?? "?")"))")
        }
        let more = count - Int64(blobs.prefix(Self.shown).count)
        if more > 0 { Output.errorLine("nightjar: and \(Plural.count(more, "blob")) more") }
    }

    /// - Parameter sentence: makes the message from the number of blobs.
    /// - Throws: if there are any, after naming them.
    func check(_ sentence: (_ blobs: String) -> String) throws {
        guard count > 0 else { return }
        tell()
        throw AgentError(.failed, sentence(Plural.count(count, "blob")))
    }
}

/// A backup that has been read completely.
enum VerifiedBackup {
    static func facts(_ folder: String) throws -> BackupFacts {
        // This file is written last: without it the backup is incomplete.
        if access("\(folder)/backup.json", F_OK) != 0, [ENOENT, ENOTDIR].contains(errno) {
            throw AgentError(.failed, "\(folder) is not a backup, or one that was not finished: \(folder)/backup.json is not there. Name a folder that nightjar backup made")
        }
        do { return try BackupRestoring.verify(folder) } catch StoreError.corrupt(let path, let detail) {
            // The advice for a live database does not apply here.
            throw AgentError(.failed, "this backup is incomplete: \(path) is damaged (\(detail)); use another one, or make a new one")
        }
    }
}

/// Absolute paths, because the agent's working directory is different.
enum AbsoluteFolder {
    static func make(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        guard let current = getcwd(&buffer, buffer.count) else { return path }
        return "\(String(cString: current))/\(path)"
    }
}

extension DatabaseFolders {
    /// Names that are possible in a configuration.
    static func check(_ name: String) throws {
        let isRight = !name.isEmpty && name.utf8.count <= 239 && name.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
        }
        guard isRight, name.utf8.first.map({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) == true else {
            throw AgentError(.invalid, "\"\(name)\" is not a valid database name: expected a-z, then a-z, 0-9, _ and -")
        }
    }

    /// The new name for the folder of a database that is being replaced.
    static func asideName(_ folder: String) -> String { "\(folder).before-\(Environment.system.time.wallSeconds())" }
}
