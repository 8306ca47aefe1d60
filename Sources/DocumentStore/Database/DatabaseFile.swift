import Environment
import Glibc

/// The database's file on disk, as opposed to the open one: SQLite continues to use a file that somebody has deleted, and what is written then is
/// lost.
package final class DatabaseFile: Sendable {
    private let path: String
    private let folder: String
    private let identity: UInt64
    /// Distinguishes the file from its copies.
    var home: String { String(identity) }
    private let files: any FileSystem
    private let problems: DatabaseProblems

    /// A marker that a database existed. It is next to the folder, so that it remains if the folder disappears.
    package static func sign(_ folder: String) -> String { folder + ".known" }

    /// A marker that SQLite found the file malformed while writing, so that a restart does not forget it. It is in the folder, so a restored database
    /// does not have it.
    static func damageMarker(_ folder: String) -> String { folder + "/malformed" }

    /// Where a restore prepares what finally replaces the folder.
    package static func preparation(_ folder: String) -> String { folder + ".restoring" }

    /// - Throws: `StoreError.fileGone` if the file is missing or empty although the marker says that there was one; `.folder` if an interrupted
    ///   restore has not put it in its place; `.inputOutput` and the like if the disk does not answer.
    static func refuseIfLost(_ path: String, folder: String, _ files: any FileSystem) throws(StoreError) {
        let lost = try StoreError.ofFiles { () throws(FileError) -> (isKnown: Bool, isBeingRestored: Bool) in
            guard try size(path, files) ?? 0 == 0 else { return (false, false) }
            // For the longest names, this path is not possible: no restore was here then.
            return (try size(sign(folder), files) != nil, files.size(preparation(folder)) != nil)
        }
        if lost.isBeingRestored {
            throw .folder(
                path: folder, errno: ENOENT,
                detail: "a nightjar restore has not finished, and \(preparation(folder)) is what it had prepared: give it again, with --replace where it was given; "
                    + "or move that folder away, and what was there before, \(folder).before-TIME if there is one, back to \(folder)")
        }
        if lost.isKnown { throw .fileGone(path: path, sign: sign(folder)) }
    }

    /// Nil if there is no such file. A disk that does not answer does not count as a missing file.
    private static func size(_ path: String, _ files: any FileSystem) throws(FileError) -> UInt64? {
        do throws(FileError) { return try files.facts(path).size } catch {
            guard error.isMissing else { throw error }
            return nil
        }
    }

    /// For a database that was just opened or created: sets its marker, and heeds a marker of damage.
    init(_ path: String, folder: String, _ files: any FileSystem, _ problems: DatabaseProblems) throws(StoreError) {
        self.path = path
        self.folder = folder
        self.files = files
        self.problems = problems
        identity = try StoreError.ofFiles { () throws(FileError) in
            let identity = try files.facts(path).identity
            guard files.size(Self.sign(folder)) == nil else { return identity }
            try files.syncFolder(folder)
            do throws(FileError) { try files.open(Self.sign(folder), .create).sync() } catch {
                guard error.number == EEXIST else { throw error }
            }
            try files.syncFolder(folder + "/..")
            return identity
        }
        if files.size(Self.damageMarker(folder)) != nil { problems.noteDamage(.malformedOnWrite(path, "SQLite found it malformed")) }
    }

    /// Errors are ignored: a disk that fails here will be reported elsewhere.
    func setDamageMarker() {
        do throws(FileError) {
            try files.open(Self.damageMarker(folder), .create).sync()
            try files.syncFolder(folder)
        } catch {}
    }

    func removeDamageMarker() {
        do throws(FileError) {
            try files.remove(Self.damageMarker(folder))
            try files.syncFolder(folder)
        } catch {}
    }

    /// - Throws: `StoreError.fileGone` while the file at the path is not the open one.
    func check() throws(StoreError) {
        let found: UInt64?
        do throws(FileError) { found = try files.facts(path).identity } catch {
            // SQLite itself will encounter any other problem.
            guard error.isMissing || error.number == ENOTDIR else { return }
            found = nil
        }
        guard found != identity else { return problems.fileIsBack() }
        let error = StoreError.fileGone(path: path, sign: nil)
        problems.note(error)
        throw error
    }
}
