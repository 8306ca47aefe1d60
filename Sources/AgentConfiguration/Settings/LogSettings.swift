/// What is logged, and how.
package struct LogSettings: Sendable, ConfigurationSection {
    /// From most to least verbose; swift-log's words, and two of Couchbase Lite's: `verbose` means `debug`, and with `none` nothing is logged.
    package enum Level: String, Sendable, CaseIterable, Codable {
        case trace, debug, verbose, info, notice, warning, error, critical
        case nothing = "none"
    }
    package enum Format: String, Sendable, CaseIterable { case text, json }
    /// The parts that can have their own level.
    package enum Domain: String, Sendable, CaseIterable { case database, replicator, network, sync, listener, plugin, http, query }

    /// Default info.
    package var level = Level.info
    /// Lines for people, or one JSON object per line. Default text.
    package var format = Format.text
    /// Whether the domain `network` at level trace includes message bodies, which contain documents. Default false.
    package var bodies = false
    /// Levels of particular domains that differ from `level`.
    package var domains = Domains()
    /// Nil: standard error.
    package var file: LogFileSettings?
    package internal(set) var position = SourcePosition.none

    package init() {}

    /// The level in force for a domain.
    package func level(of domain: Domain) -> Level { domains[domain] ?? level }

    static let sectionName = "log"
    static let keys: [Key<LogSettings>] = [
        Key("level", \.level, Form<Level>.level, "The least important messages that are logged; verbose is another word for debug, and none logs nothing."),
        Key("format", \.format, Form<Format>.choice, "Lines for people, or one JSON object a line."),
        Key(
            "bodies", \.bodies, .boolean,
            "Whether the domain network at trace shows the bodies of messages, 2,000 bytes of each. This includes the content of documents."),
        Key("domains", \.domains, Form<Domains>.section, "Levels of individual domains."),
        Key("file", optional: \.file, Form<LogFileSettings>.section, "A log file of its own, instead of standard error. Absent: none."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    /// A level for each domain that has its own.
    package struct Domains: Sendable, ConfigurationSection {
        package var database: Level?
        package var replicator: Level?
        package var network: Level?
        package var sync: Level?
        package var listener: Level?
        package var plugin: Level?
        package var http: Level?
        package var query: Level?
        package internal(set) var position = SourcePosition.none

        package init() {}

        package subscript(domain: Domain) -> Level? {
            switch domain {
            case .database: database
            case .replicator: replicator
            case .network: network
            case .sync: sync
            case .listener: listener
            case .plugin: plugin
            case .http: http
            case .query: query
            }
        }

        static let sectionName = "log_domains"
        static let keys: [Key<Domains>] = [
            Key("database", optional: \.database, Form<Level>.level, "Level of the store."),
            Key("replicator", optional: \.replicator, Form<Level>.level, "Level of replicators."),
            Key("network", optional: \.network, Form<Level>.level, "Level of the messages of replications: debug for what crosses the wire, trace for its properties too."),
            Key("sync", optional: \.sync, Form<Level>.level, "Level of what happens to each document in a replication, logged at debug."),
            Key("listener", optional: \.listener, Form<Level>.level, "Level of listeners."),
            Key("plugin", optional: \.plugin, Form<Level>.level, "Level of plugins and what they log."),
            Key("http", optional: \.http, Form<Level>.level, "Level of HTTP requests."),
            Key("query", optional: \.query, Form<Level>.level, "Level of queries (_find), logged at debug: which index was used, how many documents were looked at, "
                + "and how long it took."),
        ]

        package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
    }
}

extension Form where Value == LogSettings.Level {
    /// Further words used by Couchbase Lite and others.
    static let level = words(called: ["fatal": .critical, "off": .nothing])
}
