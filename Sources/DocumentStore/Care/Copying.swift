import Digests
import Documents
import Encodings
import Environment
import Glibc
import SQLite

/// The steps of backup and restore. All of them block.
enum Copying {
    private static let pieceBytes = 1 << 20

    /// Copies a database as of one moment, without its free pages; writers can proceed.
    static func vacuum(_ path: String, into copy: String) throws(StoreError) {
        do {
            let connection = try Connection(path: path, mode: .readOnly)
            defer { connection.close() }
            try connection.execute("VACUUM INTO '\(copy.with("'", replacedBy: "''"))'")
        } catch {
            // A copy of damaged rows may end as if the disk were full.
            if error.kind == .full, let damage = damage(at: path) { throw StoreError.corrupt(path: path, detail: damage) }
            // Corruption concerns the source; anything else happened to the copy.
            let isOfSource = error.kind == .corrupt || error.kind == .notADatabase
            throw StoreError(error, path: isOfSource ? path : copy)
        }
    }

    /// The first damage that SQLite finds in a database; nil for none, or if it cannot be looked for.
    private static func damage(at path: String) -> String? {
        do {
            let connection = try Connection(path: path, mode: .readOnly)
            defer { connection.close() }
            return try damage(connection)
        } catch { return error.kind == .corrupt || error.kind == .notADatabase ? "\(error)" : nil }
    }

    private static func damage(_ connection: Connection) throws(SQLiteError) -> String? {
        let verdict = try connection.text("PRAGMA quick_check(1)") ?? ""
        return verdict == "ok" ? nil : verdict
    }

    /// What a copy contains, after SQLite's own check of it.
    static func contents(_ path: String) throws(StoreError) -> (digests: [BlobDigest], documents: Int) {
        do {
            let connection = try Connection(path: path, mode: .readOnly)
            defer { connection.close() }
            if let damage = try damage(connection) { throw StoreError.corrupt(path: path, detail: damage) }
            var digests = Set<[UInt8]>()
            var documents = 0
            let collections = try connection.prepare("SELECT id, documents FROM collections")
            while try collections.step() {
                documents &+= Int(clamping: collections.integer(1))
                let named = try connection.prepare("SELECT DISTINCT digest FROM blobs_\(collections.integer(0))")
                while try named.step() { digests.insert(named.blob(0)) }
            }
            return (digests.compactMap { BlobDigest(bytes: $0) }.sorted { $0.hex < $1.hex }, documents)
        } catch { throw StoreError(any: error, path: path) }
    }

    /// Total size of the blobs in a backup's folder, ignoring missing ones.
    static func bytes(of digests: [BlobDigest], in folder: String, _ files: any FileSystem) -> UInt64 {
        digests.reduce(0) { $0 + (files.size("\(folder)/blobs/\($1.hex)") ?? 0) }
    }

    /// Makes peers and this database forget each other.
    static func assignNewIdentity(_ path: String, _ random: any RandomSource) throws(StoreError) {
        do {
            let connection = try Connection(path: path, mode: .readWrite)
            defer { connection.close() }
            try connection.execute(
                """
                BEGIN;
                UPDATE properties SET value = '\(Hex.encode(random.bytes(16)))' WHERE key = 'private_uuid';
                UPDATE properties SET value = '\(Hex.encode(random.bytes(16)))' WHERE key = 'public_uuid';
                DELETE FROM properties WHERE key = '\(VersionProperty.source)';
                DELETE FROM checkpoints;
                DELETE FROM peer_checkpoints;
                DELETE FROM checkpoint_owners;
                COMMIT
                """)
        } catch { throw StoreError(error, path: path) }
    }

    // MARK: - Files

    /// Reads a file completely, in pieces.
    private static func each(_ path: String, _ files: any FileSystem, _ body: ([UInt8]) throws(StoreError) -> Void) throws(StoreError) {
        let file = try StoreError.ofFiles { () throws(FileError) in try files.open(path, .read) }
        var offset: UInt64 = 0
        while true {
            var piece = [UInt8](repeating: 0, count: pieceBytes)
            let result = piece.withUnsafeMutableBytes { buffer in Result { () throws(FileError) in try file.read(at: offset, into: buffer) } }
            let count = try StoreError.ofFiles { () throws(FileError) in try result.get() }
            guard count > 0 else { return }
            offset += UInt64(count)
            piece.removeLast(piece.count - count)
            try body(piece)
        }
    }

    static func read(_ path: String, _ files: any FileSystem) throws(StoreError) -> [UInt8] {
        var all: [UInt8] = []
        try each(path, files) { (piece) throws(StoreError) in all += piece }
        return all
    }

    static func sum(_ path: String, _ files: any FileSystem) throws(StoreError) -> (sha256: String, bytes: UInt64) {
        let hasher = SHA256Hasher()
        var bytes: UInt64 = 0
        try each(path, files) { (piece) throws(StoreError) in
            hasher.update(piece)
            bytes += UInt64(piece.count)
        }
        return (Hex.encode(hasher.finalize()), bytes)
    }

    static func file(_ path: String, to copy: String, _ files: any FileSystem) throws(StoreError) {
        let target = try StoreError.ofFiles { () throws(FileError) in try files.open(copy, .create) }
        try each(path, files) { (piece) throws(StoreError) in try append(piece, to: target) }
        try StoreError.ofFiles { () throws(FileError) in try target.sync() }
    }

    /// - Returns: what is wrong with the blob, in which case there is no copy of it; nil if it was copied.
    static func blob(_ digest: BlobDigest, from path: String, to copy: String, _ files: any FileSystem) throws(StoreError) -> DamagedBlob? {
        let target = try StoreError.ofFiles { () throws(FileError) in try files.open(copy, .create) }
        var isOfCopy = false
        do throws(StoreError) {
            try verify(digest, path, files) { (piece) throws(StoreError) in
                isOfCopy = true
                try append(piece, to: target)
                isOfCopy = false
            }
        } catch {
            guard !isOfCopy, let fault = damage(digest, error) else { throw error }
            try? files.remove(copy)
            return fault
        }
        try StoreError.ofFiles { () throws(FileError) in try target.sync() }
        return nil
    }

    /// - Returns: what is wrong with a blob's file; nil if it is intact.
    static func fault(of digest: BlobDigest, at path: String, _ files: any FileSystem) throws(StoreError) -> DamagedBlob? {
        do throws(StoreError) { try verify(digest, path, files) } catch {
            guard let fault = damage(digest, error) else { throw error }
            return fault
        }
        return nil
    }

    /// Nil if an error concerns this process or its permissions rather than the blob.
    private static func damage(_ digest: BlobDigest, _ error: StoreError) -> DamagedBlob? {
        switch error {
        case .blobAltered(_, let path): DamagedBlob(digest: digest, problem: "\(path) is damaged: its bytes have changed", isAltered: true)
        case .folder(let path, ENOENT, _): DamagedBlob(digest: digest, problem: "\(path) is not there")
        case .inputOutput(let path, let detail): DamagedBlob(digest: digest, problem: "\(path) cannot be read: \(detail)")
        default: nil
        }
    }

    private static func verify(
        _ digest: BlobDigest, _ path: String, _ files: any FileSystem, _ body: ([UInt8]) throws(StoreError) -> Void = { _ in }
    ) throws(StoreError) {
        guard files.size(path) != nil else { throw .folder(path: path, errno: ENOENT, detail: "a blob that documents name is missing") }
        let hasher = SHA1Hasher()
        try each(path, files) { (piece) throws(StoreError) in
            hasher.update(piece)
            try body(piece)
        }
        guard hasher.finalize() == digest.bytes else { throw .blobAltered(digest: digest.text, path: path) }
    }

    static func write(_ bytes: [UInt8], to path: String, _ files: any FileSystem) throws(StoreError) {
        let target = try StoreError.ofFiles { () throws(FileError) in try files.open(path, .create) }
        try append(bytes, to: target)
        try StoreError.ofFiles { () throws(FileError) in try target.sync() }
    }

    private static func append(_ bytes: [UInt8], to file: any OpenFile) throws(StoreError) {
        try StoreError.ofFiles { () throws(FileError) in
            try bytes.withUnsafeBytes { buffer in Result { () throws(FileError) in try file.append(buffer) } }.get()
        }
    }

    /// Removes what was created so far; what cannot be removed stays.
    static func remove(_ folder: String, _ files: any FileSystem) {
        for inner in [folder + "/blobs", folder] {
            for name in (try? files.names(in: inner)) ?? [] { try? files.remove(inner + "/" + name) }
            try? files.remove(inner)
        }
    }
}
