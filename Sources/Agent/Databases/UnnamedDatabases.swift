import AgentConfiguration
import Glibc

/// Databases in the data folder that the configuration does not name: after a name was changed or removed, what was not replicated stays in them, and
/// nothing opens them.
package enum UnnamedDatabases {
    private static let suffix = ".nightjar"
    /// `unnamed_databases_named`: how many are named; the others are counted.
    private static let shown = 5

    /// Their names, ascending.
    static func find(_ settings: AgentSettings) -> [String] {
        let data = settings.data.value
        guard settings.knowsDataFolder, let directory = opendir(data) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let file = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            guard file.hasSuffix(suffix), access("\(data)/\(file)/db.sqlite3", F_OK) == 0 else { continue }
            let name = String(file.dropLast(suffix.count))
            if settings.database(named: name) == nil { names.append(name) }
        }
        return names.sorted()
    }

    /// What they are; nil if there are none.
    static func text(_ settings: AgentSettings) -> String? {
        let names = find(settings)
        guard let first = names.first else { return nil }
        let more = names.count > shown ? ", and \(names.count - shown) more" : ""
        let listed = names.prefix(shown).map { "\($0)\(suffix)" }.joined(separator: ", ") + more
        return names.count == 1
            ? "\(settings.data.value)/\(first)\(suffix) holds a database that the configuration does not name: nothing opens it, and what was not replicated stays in it"
            : "\(settings.data.value) holds databases that the configuration does not name: \(listed); nothing opens them, and what was not replicated stays in them"
    }

    static func remedy(_ settings: AgentSettings) -> String {
        let name = find(settings).first ?? "NAME"
        return "if its name was changed in the configuration, use the old one there again: the database on disk keeps its name; if it is needed, name it again (databases: { \(name): {} }), and give it a replicator until "
            + "everything in it is pushed; otherwise move \(name)\(suffix) and \(name)\(suffix).known out of the data folder"
    }
}

extension Agent {
    nonisolated func unnamedDatabases() -> Attention? {
        UnnamedDatabases.text(settings).map { Attention(.databaseUnnamed, "data folder", $0, remedy: UnnamedDatabases.remedy(settings)) }
    }
}
