import Environment
import Glibc

extension FileSystem {
    /// Creates the folder, readable by its owner only; the parent must exist. Durable when it returns.
    func makeDurableFolder(_ path: String) throws(FileError) {
        do throws(FileError) {
            try makeFolder(path)
        } catch {
            guard error.number == EEXIST else { throw error }
            guard try facts(path).isFolder else { throw FileError(path: path, number: ENOTDIR) }
            // The process that created it may have been interrupted before syncing. A parent that we may not read existed before.
            do throws(FileError) { try syncFolder(path + "/..") } catch { guard error.number != EIO else { throw error } }
            return
        }
        try syncFolder(path + "/..")
    }

    /// Size in bytes; nil if there is no file.
    func size(_ path: String) -> UInt64? { try? facts(path).size }
}

extension StoreError {
    /// The store's error for a failed file operation.
    init(_ error: FileError) {
        switch error.number {
        case ENOSPC, EDQUOT, EFBIG: self = .diskFull(path: error.path, detail: error.reason)
        case EIO: self = .inputOutput(path: error.path, detail: error.reason)
        default: self = .folder(path: error.path, errno: error.number, detail: error.reason)
        }
    }

    /// Runs file operations, translating errors to the store's.
    static func ofFiles<Result>(_ body: () throws(FileError) -> Result) throws(StoreError) -> Result {
        do throws(FileError) { return try body() } catch { throw StoreError(error) }
    }
}

extension Database {
    /// Why blobs can neither be read nor stored: their folder is missing. Nil if it exists. Blocks.
    public func blobFolderProblem() -> StoreError? {
        do throws(FileError) {
            let facts = try environment.files.facts(blobs.folder)
            return facts.isFolder ? nil : StoreError(FileError(path: blobs.folder, number: ENOTDIR))
        } catch { return StoreError(error) }
    }

    /// The path of a prepared restore that was interrupted before it replaced this database; nil if there is none. Blocks.
    public func unfinishedRestore() -> String? {
        let prepared = DatabaseFile.preparation(folder)
        return environment.files.size(prepared) == nil ? nil : prepared
    }
}
