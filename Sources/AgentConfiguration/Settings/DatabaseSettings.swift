/// One database.
package struct DatabaseSettings: Sendable, ConfigurationSection {
    /// `[a-z][a-z0-9_-]*`, up to 239 bytes.
    package var name = Located("")
    /// The collections besides the default one, which always exists. No duplicates.
    package var collections: [Located<CollectionReference>] = []
    /// Whether previous bodies are kept, so that changes can be sent as deltas.
    package var deltaSync = DeltaSyncSettings()
    /// Resolves conflicts, unless the replicator's collection names another resolver. Default: nil, the built-in policy.
    package var conflictResolver: PluginReference?
    /// May refuse local writes. Default: nil, everything is accepted.
    package var validate: PluginReference?
    package var history = HistorySettings()
    /// Whether documents may have empty keys and keys with NUL. Default false: Couchbase Lite cannot store them.
    package var unusualKeys = false
    package var versionVectors = false
    /// How long documents are kept. Default: none, forever.
    package var timeToLive: [TimeToLive] = []
    /// Seconds after which a tombstone that every replicator has pushed is purged. Default: nil, it is kept forever.
    package var tombstoneAge: Int?
    /// Bytes that the database and its blobs may take. Default: nil, limited only by the disk.
    package var quota: Int?
    /// Bytes of a document above which it is refused, or held if it is pulled. Default: 20 MiB, which is also the maximum.
    package var maxDocumentBytes = 20 << 20
    /// Bytes of a document above which a warning is reported. Default: 1 MiB.
    package var warnDocumentBytes = 1 << 20
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "database"
    static let keys: [Key<DatabaseSettings>] = [
        Key(
            "collections", \.collections, Form<CollectionReference>.collection.located.list(of: "collections"),
            "Collections as scope.collection; _default always exists."),
        Key(
            "delta_sync", \.deltaSync, .deltaSync,
            "Whether changes are sent as deltas, for which replaced bodies are kept for a while; or how much of them is kept."),
        Key(
            "conflict_resolver", optional: \.conflictResolver, .resolver,
            "Plugin that decides conflicts. Absent: the default rule of the peer's version of Couchbase Lite (see examples/guides/conflicts.md)."),
        Key("validate", optional: \.validate, .judge,
            "Plugin whose sync function may reject what is written here: through the admin API, doc put and rm, and import. Absent: everything is accepted."),
        Key(
            "unusual_keys", \.unusualKeys, .boolean,
            "Whether documents may have empty keys and keys with NUL. Couchbase Lite cannot store them, so by default they are refused."),
        Key(
            "version_vectors", \.versionVectors, .boolean,
            "Whether each edit made here gets a version for peers with version vectors (Couchbase Lite 4). Otherwise only edits of documents that such a peer has "
                + "edited get one, and the others are identified by their revision ids."),
        Key("ttl", \.timeToLive, .timesToLive,
            "Seconds after its last change at which a document of a collection is purged here, once every replicator has pushed it. Absent: never."),
        Key("tombstone_age", optional: \.tombstoneAge, Form<Int>.seconds(1...Limits.seconds),
            "Seconds after which the tombstone of a deleted document is purged, once every replicator has pushed it. Absent: never."),
        Key("quota", optional: \.quota, Form<Int>.bytes((1 << 20)...(1 << 50)),
            "Bytes that the database and its blobs may take, at least 1MiB; beyond that, only deletions are accepted. Absent: as many as the disk has."),
        Key("max_document_bytes", \.maxDocumentBytes, Form<Int>.bytes((1 << 10)...(20 << 20)),
            "Largest document that is accepted, without its blobs. A larger one is refused, or held if it is pulled, and retried when this changes."),
        Key("warn_document_bytes", \.warnDocumentBytes, Form<Int>.bytes((1 << 10)...(20 << 20)),
            "Documents above this size are stored, but reported in the log, the status and the metrics. 20MiB: none is."),
        Key("history", \.history, Form<HistorySettings>.section, "How much history is kept."),
    ]

    package static func == (left: Self, right: Self) -> Bool { left.name == right.name && areSame(left, right) }

    /// Whether the database has a collection.
    package func has(_ collection: CollectionReference) -> Bool {
        collection == .defaultCollection || collections.contains { $0.value == collection }
    }

    func check(_ reading: inout Reading) {
        for time in timeToLive where !has(time.collection.value) {
            reading.within(key: "ttl") { $0.report(at: time.collection.position, "the database has no collection \(time.collection.value)") }
        }
        var seen: [CollectionReference: SourcePosition] = [:]
        for collection in collections {
            if let first = seen[collection.value] {
                reading.report(
                    at: collection.position,
                    "the collection \(collection.value) is listed twice; the first is at line \(first.line), column \(first.column)")
            } else {
                seen[collection.value] = collection.position
            }
        }
    }
}

/// Deltas for one database.
package struct DeltaSyncSettings: Sendable, ConfigurationSection {
    /// Default true.
    package var enabled = true
    /// Seconds for which a replaced body is kept as a base. Default 86400 (24 hours).
    package var maxAgeSeconds = 86_400
    /// Total bytes of such bodies; the oldest are dropped. Default 64 MiB.
    package var maxBytes = 64 << 20
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "delta_sync"
    static let keys: [Key<DeltaSyncSettings>] = [
        Key("enabled", \.enabled, .boolean, "Whether deltas are used."),
        Key("rev_max_age_seconds", \.maxAgeSeconds, .seconds(1...Limits.seconds), "How long a replaced body is kept as a base, in seconds; it is removed at most a "
            + "minute later."),
        Key("max_bytes", \.maxBytes, Form<Int>.bytes(0...(1 << 40)), "Total size of the replaced bodies that are kept; the oldest are removed to make room."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

extension Form where Value == DeltaSyncSettings {
    /// `true`, `false` or a section.
    static let deltaSync = Form<Bool>.boolean.map(
        { enabled, node in
            var settings = DeltaSyncSettings()
            settings.enabled = enabled
            settings.position = node.position
            return settings
        },
        json: { $0.enabled ? "true" : "false" }
    ).or(DeltaSyncSettings.self) { settings, _ in settings }
}

/// How much history a database keeps.
package struct HistorySettings: Sendable, ConfigurationSection {
    /// Generations kept of each document's revision tree. Default 50.
    package var revisions = 50
    /// Resolved conflicts kept for `nightjar conflicts`. 0 keeps none. Default 1000.
    package var conflicts = 1000
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "history"
    static let keys: [Key<HistorySettings>] = [
        // A tree of depth 1 could not distinguish an ancestor from a conflict; CouchDB's own default is 1000.
        Key("revisions", \.revisions, .integer(2...100_000), "Generations kept of each document's revision tree."),
        Key("conflicts", \.conflicts, .integer(0...1_000_000), "Resolved conflicts kept for `nightjar conflicts`."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

/// How long documents in a collection are kept.
package struct TimeToLive: Sendable, Equatable {
    package var collection: Located<CollectionReference>
    /// Counted from their last change.
    package var seconds: Int

    package static func == (left: Self, right: Self) -> Bool { left.collection.value == right.collection.value && left.seconds == right.seconds }
}

extension Form where Value == [TimeToLive] {
    static let timesToLive = Form<Int>.seconds(1...Limits.seconds).map(keyedBy: .collection, "a mapping from collections to seconds") { seconds, name, _ in
        CollectionReference(parsing: name.value).map { TimeToLive(collection: Located($0, at: name.position), seconds: seconds) }
    }
}
