import Digests
import Documents
import Encodings
import Environment
import Glibc
import SQLite

/// A blob that documents name, and whose bytes are not to be had: its file is altered, gone, or cannot be read.
public struct DamagedBlob: Sendable, Equatable {
    public var digest: BlobDigest
    /// What is wrong with its file.
    public var problem: String
    var isAltered = false
}

/// What a backup is: a folder that holds a database as it was at one moment, and what tells whether it is whole.
///
/// `db.sqlite3` is the database's file, `blobs` its blobs, `backup.json` says of which database, when, the file's SHA-256, and which blobs were damaged
/// and are not there.
public struct BackupFacts: Sendable {
    public var database: String
    /// Seconds since 1970.
    public var madeAt: Int64
    public var documents: Int
    /// Those that it holds.
    public var blobs: Int
    /// Of the database's file.
    public var bytes: UInt64
    /// Of the blobs.
    public var blobBytes: UInt64
    /// Those that its documents name and that it does not hold as they were.
    public var damagedBlobs: [DamagedBlob]
    var sha256: String

    /// The file that is written last: a folder without it is no whole backup.
    static let fileName = "backup.json"
    static let format: Int64 = 1

    var json: JSONValue {
        var object = JSONObject([
            .init(key: "format", value: .int(Self.format)), .init(key: "database", value: .string(database)),
            .init(key: "made_at", value: .int(madeAt)), .init(key: "documents", value: .int(Int64(documents))),
            .init(key: "blobs", value: .int(Int64(blobs))), .init(key: "bytes", value: .int(Int64(clamping: bytes))),
            .init(key: "blob_bytes", value: .int(Int64(clamping: blobBytes))), .init(key: "sha256", value: .string(sha256)),
        ])
        if !damagedBlobs.isEmpty {
            object["damaged_blobs"] = .array(
                damagedBlobs.map { blob in
                    .object(JSONObject([.init(key: "digest", value: .string(blob.digest.text)), .init(key: "problem", value: .string(blob.problem))]))
                })
        }
        return .object(object)
    }

    init(database: String, madeAt: Int64, documents: Int, blobs: Int, bytes: UInt64, blobBytes: UInt64, damagedBlobs: [DamagedBlob], sha256: String) {
        self.database = database
        self.madeAt = madeAt
        self.documents = documents
        self.blobs = blobs
        self.bytes = bytes
        self.blobBytes = blobBytes
        self.damagedBlobs = damagedBlobs
        self.sha256 = sha256
    }

    init(_ json: JSONValue, path: String) throws(StoreError) {
        guard json["format"]?.asInt64 == Self.format, let database = json["database"]?.asString, let madeAt = json["made_at"]?.asInt64,
            let documents = json["documents"]?.asInt64, let blobs = json["blobs"]?.asInt64, let bytes = json["bytes"]?.asInt64,
            let sha256 = json["sha256"]?.asString
        else { throw .notADatabase(path: path, detail: "it does not say what a backup says") }
        let damaged = (json["damaged_blobs"]?.asArray ?? []).compactMap { entry in
            entry["digest"]?.asString.flatMap { try? BlobDigest($0) }.map { DamagedBlob(digest: $0, problem: entry["problem"]?.asString ?? "") }
        }
        self.init(
            database: database, madeAt: madeAt, documents: Int(clamping: documents), blobs: Int(clamping: blobs), bytes: UInt64(clamping: bytes),
            blobBytes: UInt64(clamping: json["blob_bytes"]?.asInt64 ?? 0), damagedBlobs: damaged, sha256: sha256)
    }
}

extension Database {
    /// Copies the database as it is now into a folder, while it is at work, and reads the copy again: a backup that this returns can be
    /// restored. Needs as much room as the database. A blob that is damaged or gone is left out and told: it is no reason to have no backup of
    /// all else.
    ///
    /// - Parameter folder: is made, and must not exist.
    /// - Throws: `StoreError.folder` where it exists or cannot be written. What was begun is removed then.
    public func backUp(to folder: String) async throws -> BackupFacts {
        let source = self.folder
        let name = name
        let now = blobs.now
        // One that is there already is somebody else's.
        try await blobs.perform { blobs in try Database.makeBackupFolder(folder, blobs.files) }
        do {
            let (digests, documents) = try await blobs.perform { blobs in
                try StoreError.ofFiles { () throws(FileError) in try blobs.files.makeFolder(folder + "/blobs") }
                try Copying.vacuum(source + "/db.sqlite3", into: folder + "/db.sqlite3")
                return try Copying.contents(folder + "/db.sqlite3")
            }
            var damaged: [DamagedBlob] = []
            for digest in digests {
                let fault = try await blobs.perform { blobs in
                    let fault = try Copying.blob(digest, from: blobs.path(digest), to: "\(folder)/blobs/\(digest.hex)", blobs.files)
                    if fault == nil { blobs.noteRight(digest) } else if fault?.isAltered == true { blobs.noteAltered(digest) }
                    if blobs.size(digest) == nil { blobs.noteMissed(digest) }
                    return fault
                }
                if let fault { damaged.append(fault) }
            }
            return try await blobs.perform { [damaged] blobs in
                try StoreError.ofFiles { () throws(FileError) in try blobs.files.open(folder + "/db.sqlite3", .read).sync() }
                let (sha256, bytes) = try Copying.sum(folder + "/db.sqlite3", blobs.files)
                let facts = BackupFacts(
                    database: name, madeAt: now, documents: documents, blobs: digests.count - damaged.count, bytes: bytes,
                    blobBytes: Copying.bytes(of: digests, in: folder, blobs.files), damagedBlobs: damaged, sha256: sha256)
                try Copying.write(facts.json.serialize(), to: "\(folder)/\(BackupFacts.fileName)", blobs.files)
                try StoreError.ofFiles { () throws(FileError) in
                    try blobs.files.syncFolder(folder + "/blobs")
                    try blobs.files.syncFolder(folder)
                    try blobs.files.syncFolder(folder + "/..")
                }
                return facts
            }
        } catch {
            await discardBackup(folder)
            throw error
        }
    }

    private static func makeBackupFolder(_ folder: String, _ files: any FileSystem) throws(StoreError) {
        do throws(FileError) { try files.makeFolder(folder) } catch {
            guard error.number == EEXIST else { throw StoreError(error) }
            throw .folder(path: folder, errno: error.number, detail: "it is there already; choose a new folder")
        }
    }

    private func discardBackup(_ folder: String) async {
        _ = try? await blobs.perform { Copying.remove(folder, $0.files) }
    }
}

/// Restoring, for commands: no database is open.
public enum BackupRestoring {
    /// Reads a backup whole: its file against its sum and SQLite's own check, each blob against its digest.
    ///
    /// - Returns: with the blobs that are damaged or not there, whether they were so when it was made or have become so since.
    /// - Throws: what else is wrong with it.
    @discardableResult
    public static func verify(_ folder: String, environment: Environment = .system) throws(StoreError) -> BackupFacts {
        let files = environment.files
        let path = "\(folder)/\(BackupFacts.fileName)"
        let bytes = try Copying.read(path, files)
        let json: JSONValue
        do { json = try JSONValue(parsing: bytes) } catch { throw .notADatabase(path: path, detail: "it is no JSON") }
        var facts = try BackupFacts(json, path: path)
        let file = folder + "/db.sqlite3"
        let (sha256, size) = try Copying.sum(file, files)
        guard sha256 == facts.sha256, size == facts.bytes else { throw .corrupt(path: file, detail: "its bytes are not those that were backed up") }
        let (digests, documents) = try Copying.contents(file)
        guard digests.count == facts.blobs + facts.damagedBlobs.count, documents == facts.documents else {
            throw .corrupt(path: file, detail: "it holds something else than \(path) says")
        }
        let before = Dictionary(facts.damagedBlobs.map { ($0.digest, $0.problem) }) { first, _ in first }
        var damaged: [DamagedBlob] = []
        for digest in digests {
            // One that was left out may have been put there since.
            guard var fault = try Copying.fault(of: digest, at: "\(folder)/blobs/\(digest.hex)", files) else { continue }
            if let problem = before[digest] { fault.problem += ", and when the backup was made: \(problem)" }
            damaged.append(fault)
        }
        (facts.damagedBlobs, facts.blobs) = (damaged, digests.count - damaged.count)
        let bad = Set(damaged.map(\.digest))
        facts.blobBytes = Copying.bytes(of: digests.filter { !bad.contains($0) }, in: folder, files)
        return facts
    }

    /// Makes a database of a backup. It becomes another database for its peers: what they and it have noted of each other may be from a later
    /// time than the backup, so each looks at everything again once.
    ///
    /// All of it is prepared beside its place, and put there last: whatever cuts it short, no part of a database goes into service.
    ///
    /// - Parameters:
    ///   - target: `DATA/NAME.nightjar`.
    ///   - kept: what a database that is there is called from then on; nil where there must be none.
    ///   - withoutDamagedBlobs: all else where blobs are damaged or not there.
    public static func restore(
        _ folder: String, to target: String, name: String, keeping kept: String? = nil, withoutDamagedBlobs: Bool = false, environment: Environment = .system
    ) throws(StoreError) -> BackupFacts {
        let facts = try verify(folder, environment: environment)
        if let fault = facts.damagedBlobs.first, !withoutDamagedBlobs { throw .corrupt(path: "\(folder)/blobs", detail: fault.problem) }
        let files = environment.files
        let prepared = DatabaseFile.preparation(target)
        // What an earlier one left that was cut short.
        Copying.remove(prepared, files)
        try? files.remove(DatabaseFile.sign(prepared))
        try StoreError.ofFiles { () throws(FileError) in
            try files.makeFolder(prepared)
            try files.makeFolder(prepared + "/blobs")
        }
        do throws(StoreError) {
            try Copying.file(folder + "/db.sqlite3", to: prepared + "/db.sqlite3", files)
            let damaged = Set(facts.damagedBlobs.map(\.digest))
            for digest in try Copying.contents(folder + "/db.sqlite3").digests where !damaged.contains(digest) {
                let fault = try Copying.blob(digest, from: "\(folder)/blobs/\(digest.hex)", to: "\(prepared)/blobs/\(digest.hex)", files)
                if let fault { throw .corrupt(path: "\(folder)/blobs", detail: fault.problem) }
            }
            try Copying.becomeAnother(prepared + "/db.sqlite3", environment.random)
            let database = try Database.open(folder: prepared, name: name, environment: environment)
            database.close()
            try? files.remove(DatabaseFile.sign(prepared))
            try StoreError.ofFiles { () throws(FileError) in
                try files.syncFolder(prepared + "/blobs")
                try files.syncFolder(prepared)
                try putInPlace(prepared, target, keeping: kept, files)
            }
            return facts
        } catch {
            Copying.remove(prepared, files)
            try? files.remove(DatabaseFile.sign(prepared))
            throw error
        }
    }

    /// The sign stands all the while, so that a start in between makes no empty database.
    private static func putInPlace(_ prepared: String, _ target: String, keeping kept: String?, _ files: any FileSystem) throws(FileError) {
        let sign = DatabaseFile.sign(target)
        let isSignNew = files.size(sign) == nil
        if isSignNew { try files.open(sign, .create).sync() }
        try files.syncFolder(prepared + "/..")
        let isReplacing = files.size(target) != nil
        do throws(FileError) {
            if isReplacing {
                guard let kept else { throw FileError(path: target, number: EEXIST) }
                try files.rename(target, to: kept)
            }
            do throws(FileError) { try files.rename(prepared, to: target) } catch {
                if isReplacing, let kept { try? files.rename(kept, to: target) }
                throw error
            }
        } catch {
            if isSignNew, !isReplacing { try? files.remove(sign) }
            throw error
        }
        try files.syncFolder(target + "/..")
    }
}
