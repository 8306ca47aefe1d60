import Environment
import Glibc

/// The database's file on the disk, as opposed to the open one: SQLite goes on with a file that somebody has removed, and what is
/// written then is lost.
final class DatabaseFile: Sendable {
    private let path: String
    private let folder: String
    private let identity: UInt64
    /// Tells the file from its copies.
    var home: String { String(identity) }
    private let files: any FileSystem
    private let problems: DatabaseProblems

    /// The sign that there was a database. It stands beside the folder, so that it stays when the folder goes.
    static func sign(_ folder: String) -> String { folder + ".known" }

    /// The sign that SQLite found the file malformed when it was to write, so that a start does not forget it. It stands in the folder: what is restored
    /// is without.
    static func damageSign(_ folder: String) -> String { folder + "/malformed" }

    /// Where a restore prepares what it puts into the folder's place at its end.
    static func preparation(_ folder: String) -> String { folder + ".restoring" }

    /// - Throws: `StoreError.fileGone` where the file is missing or empty, and there is the sign that it was not; `.folder` where a restore has not
    ///   put it in its place; `.inputOutput` and the like where the disk does not say.
    static func refuseIfLost(_ path: String, folder: String, _ files: any FileSystem) throws(StoreError) {
        let lost = try StoreError.ofFiles { () throws(FileError) -> (isKnown: Bool, isBeingRestored: Bool) in
            guard try size(path, files) ?? 0 == 0 else { return (false, false) }
            // Of the longest names the other one cannot be: no restore was here then.
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

    /// Nil where there is no such file. A disk that does not answer is no missing file.
    private static func size(_ path: String, _ files: any FileSystem) throws(FileError) -> UInt64? {
        do throws(FileError) { return try files.facts(path).size } catch {
            guard error.isMissing else { throw error }
            return nil
        }
    }

    /// Of a database that was opened or made now: the sign of it is set, and one of damage is heeded.
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
        if files.size(Self.damageSign(folder)) != nil { problems.noteDamage(.metByWrite(path, "SQLite found it malformed")) }
    }

    /// A disk that does not take the sign has more to say itself.
    func setDamageSign() {
        do throws(FileError) {
            try files.open(Self.damageSign(folder), .create).sync()
            try files.syncFolder(folder)
        } catch {}
    }

    func removeDamageSign() {
        do throws(FileError) {
            try files.remove(Self.damageSign(folder))
            try files.syncFolder(folder)
        } catch {}
    }

    /// - Throws: `StoreError.fileGone` while the file at the path is not the one that is open.
    func check() throws(StoreError) {
        let found: UInt64?
        do throws(FileError) { found = try files.facts(path).identity } catch {
            // Anything else than that it is gone, SQLite will meet itself.
            guard error.isMissing || error.number == ENOTDIR else { return }
            found = nil
        }
        guard found != identity else { return problems.fileIsBack() }
        let error = StoreError.fileGone(path: path, sign: nil)
        problems.note(error)
        throw error
    }
}
