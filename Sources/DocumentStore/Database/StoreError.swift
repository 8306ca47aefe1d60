import Documents

/// The errors of the store, with what an operator needs in order to act.
public enum StoreError: Error, Sendable, Equatable {
    /// The database was closed.
    case closed(database: String)
    /// A transaction object was used after its closure had returned.
    case transactionEnded
    /// The database folder cannot be created or opened.
    case folder(path: String, errno: Int32, detail: String)
    /// Another process (or another `Database` in this one) has it open.
    case locked(folder: String, pid: Int32?)
    /// The file is not a database of this program; nothing was changed.
    case notADatabase(path: String, detail: String)
    /// The file was written by a newer version; nothing was changed.
    case schemaTooNew(path: String, found: Int, supported: Int)
    /// The file that contained the database is missing or empty. `sign` is the marker file that says that there was one: nil while the agent is
    /// running.
    case fileGone(path: String, sign: String?)
    /// The file is damaged.
    case corrupt(path: String, detail: String)
    /// No space on the disk. The transaction was rolled back; later ones work when there is space.
    case diskFull(path: String, detail: String)
    /// The disk reported an error. The transaction was rolled back.
    case inputOutput(path: String, detail: String)
    /// Another failure of SQLite.
    case database(code: Int32, message: String, sql: String)

    /// The revision given as parent is not the current one (`nil`: there is no document).
    case conflict(id: DocumentID, current: RevisionID?)
    /// A conflict to be resolved is not, or no longer, between the two given revisions.
    case conflictMoved(id: DocumentID, local: RevisionID?, remote: RevisionID?)
    /// The checkpoint's or local document's token is not the current one (`nil`: none is stored).
    case checkpointConflict(id: String, current: String?)
    /// No such document.
    case notFound(id: DocumentID)
    /// The stored data of this document cannot be read; other documents are not affected.
    case documentDamaged(id: DocumentID, detail: String)

    /// The collection does not belong to this database.
    case unknownCollection(CollectionName)
    /// `StoreLimits.maxCollections` reached.
    case tooManyCollections(limit: Int)
    /// `StoreLimits.maxIndexes` reached.
    case tooManyIndexes(limit: Int)
    /// Body over `DatabaseOptions.maxBodyBytes`.
    case bodyTooLarge(id: DocumentID, bytes: Int, limit: Int)
    /// Body of a checkpoint or local document over `StoreLimits.maxLocalBodyBytes`.
    case localBodyTooLarge(id: String, bytes: Int, limit: Int)
    /// Body is not a JSON object.
    case bodyInvalid(id: DocumentID, detail: String)
    /// A top-level key starts with an underscore; those belong to the protocols.
    case reservedKey(id: DocumentID, key: String)
    /// The history of an incoming revision is not consistent.
    case historyInvalid(id: DocumentID, revision: RevisionID, detail: String)
    /// `StoreLimits.maxBranches` or `maxRemotesPerDocument` reached for this document.
    case tooManyBranches(id: DocumentID, limit: Int)
    /// Identifier of a checkpoint or local document empty or over `StoreLimits.maxLocalIDBytes`.
    case localIDInvalid(bytes: Int, limit: Int)

    /// No such blob.
    case blobMissing(digest: String)
    /// The bytes received do not match the digest. Nothing was installed.
    case blobDigestMismatch(expected: String, found: String)
    /// The number of bytes received differs from the announced one. Nothing was installed.
    case blobLengthMismatch(digest: String, expected: UInt64, found: UInt64)
    /// Blob over `BlobStore.maxBytes`. Nothing was installed.
    case blobTooLarge(limit: UInt64)
    /// The file's bytes do not, or no longer, match the digest.
    case blobAltered(digest: String, path: String)
    /// `OpenBlobs.limit` reached, or the blob gave way to another one because nothing was read or written for a while. Nothing was installed.
    case tooManyOpenBlobs(limit: Int)
}

extension StoreError {
    private static let outOfSpaceToOpen = "the disk is full, and the database cannot be opened, not even to be read; make room on it, a few KiB are enough, then start again"

    /// The same for a database that is not open yet: the caller did not attempt a write.
    var ofOpening: StoreError {
        if case .diskFull(let path, _) = self { .diskFull(path: path, detail: Self.outOfSpaceToOpen) } else { self }
    }

    /// Whether there was no space to open the database.
    package var isOutOfSpaceToOpen: Bool { if case .diskFull(_, Self.outOfSpaceToOpen) = self { true } else { false } }

    /// SQLite found the file malformed while writing.
    static func malformedOnWrite(_ path: String, _ detail: String) -> Self {
        .corrupt(path: path, detail: "\(detail), met by a write: nothing more is written to it until nightjar doctor finds the file sound")
    }

    /// The bytes of a blob do not match its digest: only the documents that name it have to wait.
    package var isAlteredBlob: Bool { if case .blobAltered = self { true } else { false } }

    /// Whether the disk failed to store what was written.
    var isDiskError: Bool {
        switch self {
        case .diskFull, .inputOutput: true
        default: false
        }
    }
}

extension StoreError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .closed(let name):
            "database \(name) is closed"
        case .transactionEnded:
            "a transaction was used after it had ended"
        case .folder(let path, let number, let detail):
            "cannot use folder \(path): \(detail) (errno \(number))"
        case .locked(let folder, let pid):
            "database \(folder) is in use by \(pid.map { "process \($0)" } ?? "another process"): stop it first; if it is an agent that is starting or stopping, try again in a moment"
        case .notADatabase(let path, let detail):
            "\(path) is not a database of this program (\(detail)); it was left as it is: move it away or restore a copy"
        case .schemaTooNew(let path, let found, let supported):
            "\(path) has schema version \(found), this program knows versions up to \(supported); use the newer program"
        case .corrupt(let path, let detail):
            "\(path) is damaged (\(detail)): stop the agent and restore a copy; or export what can be read, move the database's folder and "
                + "the file FOLDER.known away, and replicate again"
        case .fileGone(let path, nil):
            "\(path) has disappeared or was replaced while it was open, nothing is written any more: put the file back, or stop the agent and "
                + "restore a copy"
        case .fileGone(let path, let sign?):
            "\(path) is missing or empty, but there was a database: put it back or restore a copy (is its disk mounted?); to begin with an "
                + "empty one, remove \(sign)"
        case .diskFull(let path, let detail) where isOutOfSpaceToOpen:
            "no room for \(path): \(detail)"
        case .diskFull(let path, let detail):
            "no room for \(path) (\(detail)); nothing of this write was stored"
        case .inputOutput(let path, let detail):
            "the disk failed for \(path) (\(detail)); nothing of this write was stored"
        case .database(let code, let message, let sql):
            "SQLite error \(code): \(message) in: \(sql)"
        case .conflict(let id, let current):
            "document \(id) is at \(current.map { "revision \($0)" } ?? "no revision"), not at the parent given"
        case .conflictMoved(let id, let local, let remote):
            "the conflict of document \(id) has moved on (now local \(local.map { "\($0)" } ?? "none"), remote \(remote.map { "\($0)" } ?? "none"))"
        case .checkpointConflict(let id, let current):
            "\(id) is at \(current ?? "no token"), not at the token given"
        case .notFound(let id):
            "document \(id) does not exist"
        case .documentDamaged(let id, let detail):
            "the stored data of document \(id) is damaged (\(detail)): save it again on top of its current revision, delete it, or purge it"
        case .unknownCollection(let name):
            "collection \(name) does not exist in this database"
        case .tooManyCollections(let limit):
            "the database has its maximum of \(limit) collections (max_collections)"
        case .tooManyIndexes(let limit):
            "the collection has its maximum of \(limit) indexes (max_indexes): remove one"
        case .bodyTooLarge(let id, let bytes, let limit):
            "the body of document \(id) has \(bytes) bytes, max_document_bytes is \(limit): store what is large as a blob"
                + (limit < StoreLimits.maxBodyBytes ? ", or raise max_document_bytes of the database and nightjar reload" : "")
        case .localBodyTooLarge(let id, let bytes, let limit):
            "the body of \(id) has \(bytes) bytes, a checkpoint or local document may have \(limit)"
        case .bodyInvalid(let id, let detail):
            "body of document \(id) is not a valid JSON object: \(detail)"
        case .reservedKey(let id, let key):
            "body of document \(id) has the key \"\(key)\"; top-level keys starting with _ are reserved"
        case .historyInvalid(let id, let revision, let detail):
            "history of document \(id) revision \(revision) is not valid: \(detail)"
        case .tooManyBranches(let id, let limit):
            "document \(id) has its maximum of \(limit) branches or remotes; resolve its conflicts first"
        case .localIDInvalid(let bytes, let limit):
            "a checkpoint or local document identifier has \(bytes) bytes; 1 to \(limit) are allowed"
        case .blobMissing(let digest):
            "blob \(digest) is not stored"
        case .blobDigestMismatch(let expected, let found):
            "blob has digest \(found), expected \(expected)"
        case .blobLengthMismatch(let digest, let expected, let found):
            "blob \(digest) has \(found) bytes, expected \(expected)"
        case .blobTooLarge(let limit):
            "blob has more than \(limit) bytes (max_blob_bytes)"
        case .tooManyOpenBlobs(let limit):
            "the maximum number of blobs is already being read or written (open_blobs = \(limit), which follows from RLIMIT_NOFILE); try again later"
        case .blobAltered(let digest, let path):
            "the bytes of blob \(digest) were altered on disk (\(path)): store the right ones again with nightjar blob put, or let a peer send them again"
        }
    }
}
