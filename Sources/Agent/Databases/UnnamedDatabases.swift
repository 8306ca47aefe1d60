import AgentConfiguration

/// Databases in the data folder that the configuration does not name: after a name was changed or removed, what was not replicated stays in them, and
/// nothing opens them.
struct UnnamedDatabases {
    /// `unnamed_databases_named`: how many are named; the others are counted.
    private static let shown = 5

    private let data: String
    private let first: String
    /// All of them, ascending.
    private let names: [String]

    /// - Returns: nil if there are none.
    init?(_ settings: AgentSettings) {
        guard settings.knowsDataFolder else { return nil }
        let data = settings.data.value
        let names = DatabaseFolders.names(in: data).filter { settings.database(named: $0) == nil }
        guard let first = names.first else { return nil }
        (self.data, self.first, self.names) = (data, first, names)
    }

    /// What they are.
    var text: String {
        let suffix = DatabaseFolders.suffix
        let more = names.count > Self.shown ? ", and \(names.count - Self.shown) more" : ""
        let listed = names.prefix(Self.shown).map { "\($0)\(suffix)" }.joined(separator: ", ") + more
        return names.count == 1
            ? "\(data)/\(first)\(suffix) holds a database that the configuration does not name: nothing opens it, and what was not replicated stays in it"
            : "\(data) holds databases that the configuration does not name: \(listed); nothing opens them, and what was not replicated stays in them"
    }

    /// What to do about the first.
    var remedy: String {
        let suffix = DatabaseFolders.suffix
        return "if its name was changed in the configuration, use the old one there again: the database on disk keeps its name; if it is needed, name it again "
            + "(databases: { \(first): {} }), and give it a replicator until everything in it is pushed; otherwise move \(first)\(suffix) and "
            + "\(DatabaseFolders.sign("\(first)\(suffix)")) out of the data folder"
    }
}

extension Agent {
    nonisolated func unnamedDatabases() -> Attention? {
        UnnamedDatabases(settings).map { Attention(.databaseUnnamed, "data folder", $0.text, remedy: $0.remedy) }
    }
}
