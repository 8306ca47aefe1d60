import DocumentStore
import Glibc

/// Database folders, `NAME.nightjar`, on disk.
package enum DatabaseFolders {
    package static let suffix = ".nightjar"

    /// Whether the folder contains a database.
    package static func exists(_ folder: String) -> Bool { access("\(folder)/db.sqlite3", F_OK) == 0 }

    /// Whether it contains a database, or used to, or a restore was about to create one.
    package static func isExpected(_ folder: String) -> Bool { exists(folder) || access(sign(folder), F_OK) == 0 || access(restoring(folder), F_OK) == 0 }

    /// The sign that there was a database.
    package static func sign(_ folder: String) -> String { DatabaseFile.sign(folder) }

    /// Where a restore prepares the database.
    package static func restoring(_ folder: String) -> String { DatabaseFile.preparation(folder) }

    /// - Throws: ``AgentError`` if this user may not look into the data folder or into one of its databases, so that a database that is there would
    ///   not be found.
    package static func checkAccess(_ data: String) throws(AgentError) {
        for path in [data] + entries(of: data).map({ "\(data)/\($0)" }) {
            guard access(path, R_OK | X_OK) != 0, errno == EACCES else { continue }
            throw AgentError(.failed, "cannot look into \(path): Permission denied" + (AgentUser.remedy(EACCES, at: path, data: data).map { "; \($0)" } ?? ""))
        }
    }

    /// The names of the databases in a data folder, ascending.
    package static func names(in data: String) -> [String] {
        entries(of: data).filter { exists("\(data)/\($0)") }.map { String($0.dropLast(suffix.count)) }.sorted()
    }

    /// The names of the folders that are meant for databases.
    private static func entries(of data: String) -> [String] {
        guard let directory = opendir(data) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(suffix) { names.append(name) }
        }
        return names
    }

    /// The name of the database in a folder; nil if the folder is not named like one.
    package static func name(of folder: String) -> String? {
        var path = Substring(folder)
        while path.count > 1, path.last == "/" { path.removeLast() }
        let last = path.split(separator: "/").last ?? ""
        guard last.hasSuffix(suffix), last.count > suffix.count else { return nil }
        return String(last.dropLast(suffix.count))
    }
}
