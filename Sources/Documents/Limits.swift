/// Limits on what this module accepts from outside, each with its reason.
public enum DocumentLimits {
    /// Longest document id in UTF-8 bytes: Core accepts 240 (replication.md section 7).
    public static let documentIDBytes = 240
    /// Longest digest of a revision id in hexadecimal digits. 32 and 40 are customary and Core's buffer holds 80; the rest leaves room for longer
    /// digests without unbounded ids.
    public static let revisionDigestDigits = 128
    /// Largest generation of a revision that is not a deletion, whether it comes from elsewhere or is made here. The room above it is for deletions,
    /// so that every document can be deleted everywhere. Sides of a conflict have to be below it, even deletions: a decision may put a live revision
    /// on top.
    public static let revisionGeneration: UInt64 = (1 << 53) - 1 - 1_000_000
    /// Largest generation in data from elsewhere. Peers may parse generations as JSON numbers, which most of them represent exactly up to this value.
    public static let receivedGeneration: UInt64 = (1 << 53) - 1
    /// Largest generation read from a database. Whatever is stored was accepted once, under some limit; this one only keeps numbers within 63 bits.
    public static let storedGeneration: UInt64 = 1 << 62
    /// Longest scope or collection name in bytes (Couchbase's rule).
    public static let collectionNameBytes = 251
    /// Maximum number of revisions in one tree. A tree is pruned to some 50 per branch, so this allows many branches; it limits the memory and time
    /// that a hostile history or database can cost.
    public static let treeRevisions = 10_000
    /// Maximum number of ancestors accepted with one revision. Peers send what `maxHistory` asks for, 50 by default.
    public static let historyRevisions = 1_000
    /// Maximum number of versions and revisions accepted with one version vector. `VersionVector.keptVersions` of them are kept.
    public static let vectorVersions = 1_000
}

/// Limits on JSON text.
public enum JSONLimits {
    /// Deepest nesting of arrays and objects: Couchbase Lite's limit, which silently fails to store a deeper document.
    public static let depth = 100
    /// Maximum number of keys of an object from outside, including those of the enclosing objects: all of them are held in memory to be compared with
    /// each other. Real documents have about a hundred.
    public static let openKeys = 100_000
    /// Deepest nesting read from a database: older versions accepted 128 levels. Readers recurse once per level.
    public static let storedDepth = 128
    /// Largest JSON text in bytes. Stores and protocols set smaller limits of their own; this one keeps offsets within 32 bits.
    public static let textBytes = 1 << 30
}
