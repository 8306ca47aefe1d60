/// The contents of `nightjar.yaml`, checked on their own: names are unique, references between sections are valid, paths are absolute. What only
/// other parts know (which plugins exist, what a key store contains) is left to them; the `Located` values tell them which position to report.
package struct AgentSettings: Sendable, ConfigurationSection {
    /// The file that was read, as the operator named it; nil for the embedded default.
    package internal(set) var file: String?
    /// The absolute folder to which relative paths were relative, including those in plugins' params.
    package internal(set) var folder = Paths.currentFolder
    /// The folder for databases, the key store and `admin.sock`. Default: `nightjar-data` next to the file.
    package var data = Located("")
    /// The folder of the plugins. Default: `plugins` next to the file if that folder exists, otherwise nil.
    package var plugins: Located<String>?
    /// Admin API and metrics over TCP. Default: nil, only on `admin.sock`.
    package var admin: AdminSettings?
    package var log = LogSettings()
    /// In the order of the file.
    package var databases: [DatabaseSettings] = []
    package var listeners: [ListenerSettings] = []
    package var replicators: [ReplicatorSettings] = []
    /// The resources that the agent may use in total.
    package var limits = LimitSettings()
    /// How full the disk may get.
    package var disk = DiskSettings()
    /// Plugins and fragments of this configuration that arrive as signed documents. Default: nil, none.
    package var fleet: FleetSettings?
    /// Limits for particular plugins that differ from the defaults.
    package var pluginLimits: [PluginLimitSettings] = []
    /// What this configuration was made from, if fragments may be added to it.
    var base: ConfigurationBase?
    /// The fleet's fragments that are part of it, ordered by name.
    package internal(set) var fragments: [ConfigurationFragment] = []
    /// Fragments that should be part of it but are not.
    package internal(set) var refusedFragments: [RefusedFragment] = []
    /// Whether the file contains `databases`, even if empty.
    var namesDatabases = false
    /// Keys for folders that could not be read: nothing is known about the contents of these folders.
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
        Key("log", \.log, Form<LogSettings>.section, "What is logged, and how."),
        Key(
            "databases", \.databases,
            Form<DatabaseSettings>.section.map(keyedBy: .database, "a mapping from database names to their settings") { database, name, _ in
                var database = database
                database.name = name
                return database
            }, "Databases by name. A name without settings has all defaults."),
        Key("listeners", \.listeners, Form<ListenerSettings>.section.list(of: "listeners"), "Ports on which peers connect."),
        Key("replicators", \.replicators, Form<ReplicatorSettings>.section.list(of: "replicators"), "Replications that this agent starts."),
        Key("limits", \.limits, Form<LimitSettings>.section, "What the agent may use in total."),
        Key("disk", \.disk, Form<DiskSettings>.section, "How full the disk may become before the agent accepts less."),
        Key("fleet", optional: \.fleet, Form<FleetSettings>.section, "Plugins and fragments of this configuration that arrive as signed documents. Absent: none do."),
        Key(
            "plugin_limits", \.pluginLimits,
            Form<PluginLimitSettings>.section.map(keyedBy: .plugin, "a mapping from plugin names to their limits") { limits, name, _ in
                var limits = limits
                limits.name = name
                return limits
            }, "Limits of individual plugins, by plugin name, where they differ from the defaults."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    /// The database with this name.
    package func database(named name: String) -> DatabaseSettings? { databases.first { $0.name.value == name } }
    /// The names of the listeners that serve a database.
    package func listeners(of database: String) -> Set<String> {
        Set(listeners.filter { $0.databases.contains { $0.value.utf8.elementsEqual(database.utf8) } }.map(\.name.value))
    }

    /// Whether changes in a database may be sent as deltas. Not if a transform gives a revision a different body here than at a peer: applying one's
    /// delta to the other would produce neither.
    package func usesDeltas(_ database: String) -> Bool {
        self.database(named: database)?.deltaSync.enabled ?? true
            && !replicators.contains { replicator in
                replicator.database.value == database
                    && replicator.collections.contains { $0.pushTransform != nil || $0.pullTransform != nil }
            }
    }
    /// The listener with this name.
    package func listener(named name: String) -> ListenerSettings? { listeners.first { $0.name.value == name } }
    /// The replicator with this name.
    package func replicator(named name: String) -> ReplicatorSettings? { replicators.first { $0.name.value == name } }
    /// The limits of a plugin; nil if it has the defaults.
    package func limits(ofPlugin name: String) -> PluginLimitSettings? { pluginLimits.first { $0.name.value == name } }
}
