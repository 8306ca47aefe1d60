import Digests
import Documents
import Encodings
import Environment
import Glibc
import SQLite

/// A blob that documents name and whose bytes cannot be obtained: its file is altered, missing or unreadable.
public struct DamagedBlob: Sendable, Equatable {
    public var digest: BlobDigest
    /// What is wrong with its file.
    public var problem: String
    var isAltered = false
}

/// Describes a backup: a folder that contains a database as of one moment, and the information to verify that it is complete.
///
/// `db.sqlite3` is the database's file, `blobs` contains its blobs, and `backup.json` says of which database and when it was made, the file's
/// SHA-256, and which blobs were damaged and are not included.
public struct BackupFacts: Sendable {
    public var database: String
    /// Seconds since 1970.
    public var madeAt: Int64
    public var documents: Int
    /// Number of blobs that it contains.
    public var blobs: Int
    /// Size of the database's file.
    public var bytes: UInt64
    /// Total size of the blobs.
    public var blobBytes: UInt64
    /// Blobs that its documents name and that it does not contain intact.
    public var damagedBlobs: [DamagedBlob]
    var sha256: String

    /// The file that is written last: without it, the folder is not a complete backup.
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
        else { throw .notADatabase(path: path, detail: "it is not the description of a backup") }
        let damaged = (json["damaged_blobs"]?.asArray ?? []).compactMap { entry in
            entry["digest"]?.asString.flatMap { try? BlobDigest($0) }.map { DamagedBlob(digest: $0, problem: entry["problem"]?.asString ?? "") }
        }
        self.init(
            database: database, madeAt: madeAt, documents: Int(clamping: documents), blobs: Int(clamping: blobs), bytes: UInt64(clamping: bytes),
            blobBytes: UInt64(clamping: json["blob_bytes"]?.asInt64 ?? 0), damagedBlobs: damaged, sha256: sha256)
    }
}

extension Database {
    /// Copies the current state of the database into a folder, while it is in use, and reads the copy again: a backup returned by this method can be
    /// restored. Needs as much space as the database. A damaged or missing blob is left out and reported: it is no reason to have no backup of
    /// everything else.
    ///
    /// - Parameter folder: is created, and must not exist.
    /// - Throws: `StoreError.folder` if it exists or cannot be written. Anything created so far is then removed.
    public func backUp(to folder: String) async throws -> BackupFacts {
        let source = self.folder
        let name = name
        let now = blobs.now
        // An existing folder belongs to somebody else.
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
                    if fault == nil { blobs.noteIntact(digest) } else if fault?.isAltered == true { blobs.noteAltered(digest) }
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
    /// Verifies a backup completely: its file against its checksum and SQLite's own check, each blob against its digest.
    ///
    /// - Returns: the facts, with the blobs that are damaged or missing, whether since the backup was made or before.
    /// - Throws: any other fault of the backup.
    @discardableResult
    public static func verify(_ folder: String, environment: Environment = .system) throws(StoreError) -> BackupFacts {
        let files = environment.files
        let path = "\(folder)/\(BackupFacts.fileName)"
        let bytes = try Copying.read(path, files)
        let json: JSONValue
        do { json = try JSONValue(parsing: bytes) } catch { throw .notADatabase(path: path, detail: "it is not JSON") }
        var facts = try BackupFacts(json, path: path)
        let file = folder + "/db.sqlite3"
        let (sha256, size) = try Copying.sum(file, files)
        guard sha256 == facts.sha256, size == facts.bytes else { throw .corrupt(path: file, detail: "its bytes are not those that were backed up") }
        let (digests, documents) = try Copying.contents(file)
        guard digests.count == facts.blobs + facts.damagedBlobs.count, documents == facts.documents else {
            throw .corrupt(path: file, detail: "it holds something other than \(path) says")
        }
        let before = Dictionary(facts.damagedBlobs.map { ($0.digest, $0.problem) }) { first, _ in first }
        var damaged: [DamagedBlob] = []
        for digest in digests {
            // A blob left out of the backup may have been added since.
            guard var fault = try Copying.fault(of: digest, at: "\(folder)/blobs/\(digest.hex)", files) else { continue }
            if let problem = before[digest] { fault.problem += ", and when the backup was made: \(problem)" }
            damaged.append(fault)
        }
        (facts.damagedBlobs, facts.blobs) = (damaged, digests.count - damaged.count)
        let bad = Set(damaged.map(\.digest))
        facts.blobBytes = Copying.bytes(of: digests.filter { !bad.contains($0) }, in: folder, files)
        return facts
    }

    /// Creates a database from a backup. It becomes a different database for its peers: what they and it have noted about each other may be newer
    /// than the backup, so each compares everything once.
    ///
    /// Everything is prepared next to its final place and moved there last: even if this is interrupted, a partial database never goes into service.
    ///
    /// - Parameters:
    ///   - target: `DATA/NAME.nightjar`.
    ///   - kept: the new name for an existing database; nil if there must be none.
    ///   - withoutDamagedBlobs: restore everything else if blobs are damaged or missing.
    public static func restore(
        _ folder: String, to target: String, name: String, keeping kept: String? = nil, withoutDamagedBlobs: Bool = false, environment: Environment = .system
    ) throws(StoreError) -> BackupFacts {
        let facts = try verify(folder, environment: environment)
        if let fault = facts.damagedBlobs.first, !withoutDamagedBlobs { throw .corrupt(path: "\(folder)/blobs", detail: fault.problem) }
        let files = environment.files
        let prepared = DatabaseFile.preparation(target)
        // Left by an earlier restore that was interrupted.
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
            try Copying.assignNewIdentity(prepared + "/db.sqlite3", environment.random)
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

    /// The sign exists throughout, so that a start in between does not create an empty database.
    private static func putInPlace(_ prepared: String, _ target: String, keeping kept: String?, _ files: any FileSystem) throws(FileError) {
        let sign = DatabaseFile.sign(target)
        let isMarkerNew = files.size(sign) == nil
        if isMarkerNew { try files.open(sign, .create).sync() }
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
            if isMarkerNew, !isReplacing { try? files.remove(sign) }
            throw error
        }
        try files.syncFolder(target + "/..")
    }
}
