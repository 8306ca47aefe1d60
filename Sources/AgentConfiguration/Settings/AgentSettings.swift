/// Everything that `nightjar.yaml` says, checked in itself: names are unique, references between sections hold,
/// paths are absolute. What only other parts know (which plugins there are, what a key store holds) is left to them;
/// the `Located` values tell them where to point.
package struct AgentSettings: Sendable, ConfigurationSection {
    /// The file that was read, as the operator named it; nil for the embedded default.
    package internal(set) var file: String?
    /// The absolute folder against which relative paths were resolved. Paths inside plugin params resolve against it too.
    package internal(set) var folder = Paths.currentFolder
    /// Folder of the databases, the key store and `admin.sock`. Default: `nightjar-data` beside the file.
    package var data = Located("")
    /// Folder of the plugins. Default: `plugins` beside the file if there is such a folder, else nil.
    package var plugins: Located<String>?
    /// Admin API and metrics over TCP. Default: nil, only on `admin.sock`.
    package var admin: AdminSettings?
    package var log = LogSettings()
    /// In the order of the file.
    package var databases: [DatabaseSettings] = []
    package var listeners: [ListenerSettings] = []
    package var replicators: [ReplicatorSettings] = []
    /// What the agent may use, all together.
    package var limits = LimitSettings()
    /// How full the disk may become.
    package var disk = DiskSettings()
    /// Plugins and fragments of this configuration that arrive as signed documents. Default: nil, none.
    package var fleet: FleetSettings?
    /// Limits of single plugins that differ from the defaults.
    package var pluginLimits: [PluginLimitSettings] = []
    /// What this was made of, where fragments may come to it.
    var base: ConfigurationBase?
    /// Fragments of the fleet that are in this, ascending by name.
    package internal(set) var fragments: [ConfigurationFragment] = []
    /// Those that were to be in it and are not.
    package internal(set) var refusedFragments: [RefusedFragment] = []
    /// The file says `databases`, be it to have none.
    var namesDatabases = false
    /// Keys of folders that the file names and that could not be read: nothing is known of what is in them.
    var unread: Set<String> = []
    package var knowsDataFolder: Bool { !unread.contains("data") }
    package var knowsPluginsFolder: Bool { !unread.contains("plugins") }
    package internal(set) var position = SourcePosition.none

    /// No databases, no listeners, all defaults; `data` is empty. See `embeddedDefault` and `load`.
    package init() {}

    static let sectionName = "agent"
    static let keys: [Key<AgentSettings>] = [
        Key(
            "data", \.data, Form<String>.path.located,
            "Folder of the databases, the key store and admin.sock. Default: nightjar-data beside this file."),
        Key(
            "plugins", optional: \.plugins, Form<String>.path.located,
            "Folder of the plugins. Default: plugins beside this file, if there is such a folder."),
        Key("admin", optional: \.admin, Form<AdminSettings>.section,
            "Admin API and /metrics over TCP. Absent: only on DATA/admin.sock, which the commands use."),
        Key("log", \.log, Form<LogSettings>.section, "What is logged and how."),
        Key(
            "databases", \.databases,
            Form<DatabaseSettings>.section.map(keyedBy: .database, "a mapping from database names to their settings") { database, name, _ in
                var database = database
                database.name = name
                return database
            }, "Databases by name. A name without settings has all defaults."),
        Key("listeners", \.listeners, Form<ListenerSettings>.section.list(of: "listeners"), "Ports on which peers connect."),
        Key("replicators", \.replicators, Form<ReplicatorSettings>.section.list(of: "replicators"), "Replications that this agent starts."),
        Key("limits", \.limits, Form<LimitSettings>.section, "What the agent may use, all together."),
        Key("disk", \.disk, Form<DiskSettings>.section, "How full the disk may become before the agent takes less."),
        Key("fleet", optional: \.fleet, Form<FleetSettings>.section, "Plugins and fragments of this configuration that arrive as signed documents. Absent: none do."),
        Key(
            "plugin_limits", \.pluginLimits,
            Form<PluginLimitSettings>.section.map(keyedBy: .plugin, "a mapping from plugin names to their limits") { limits, name, _ in
                var limits = limits
                limits.name = name
                return limits
            }, "Limits of single plugins, by plugin name, where they differ from the defaults."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    /// The database of a name.
    package func database(named name: String) -> DatabaseSettings? { databases.first { $0.name.value == name } }
    /// The listeners that serve a database, by name.
    package func listeners(of database: String) -> Set<String> {
        Set(listeners.filter { $0.databases.contains { $0.value.utf8.elementsEqual(database.utf8) } }.map(\.name.value))
    }

    /// Whether changes of a database may travel as deltas. Not where a transform gives a revision another body here than at a peer: a delta
    /// from the one, applied to the other, is neither.
    package func usesDeltas(_ database: String) -> Bool {
        self.database(named: database)?.deltaSync.enabled ?? true
            && !replicators.contains { replicator in
                replicator.database.value == database
                    && replicator.collections.contains { $0.pushTransform != nil || $0.pullTransform != nil }
            }
    }
    /// The listener of a name.
    package func listener(named name: String) -> ListenerSettings? { listeners.first { $0.name.value == name } }
    /// The replicator of a name.
    package func replicator(named name: String) -> ReplicatorSettings? { replicators.first { $0.name.value == name } }
    /// The limits of a plugin, nil where it has the defaults.
    package func limits(ofPlugin name: String) -> PluginLimitSettings? { pluginLimits.first { $0.name.value == name } }
}
