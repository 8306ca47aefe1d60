/// The resources that the agent may use, over all connections, databases and replicators.
package struct LimitSettings: Sendable, ConfigurationSection {
    /// Bytes of memory held for peers: incomplete messages, waiting lists and revisions, replies, and bodies of HTTP requests. Default: 64 MiB.
    package var memory = 64 << 20
    /// Maximum size of a blob, in both directions of every replication. Default: 256 MiB.
    package var maxBlobBytes = 256 << 20
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "limits"
    static let keys: [Key<LimitSettings>] = [
        Key(
            "memory", \.memory, Form<Int>.bytes((8 << 20)...(64 << 30)),
            "Memory for what peers have sent or have yet to read, and for bodies of HTTP requests, over all connections; at least 8MiB. Connections are slowed down "
                + "first; then the one that has held the most for the longest ends with 4001 (come back later), a request with 503; if one address owes more than "
                + "its share, one of its connections. While a password is checked or hashed, one at a time, 32MiB more are in use."),
        Key(
            "max_blob_bytes", \.maxBlobBytes, Form<Int>.bytes(0...(1 << 40)),
            "Largest blob that is accepted. A document with a larger one is held, and retried when this changes."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}
