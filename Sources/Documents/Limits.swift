/// Bounds on what this target accepts from outside, each with its reason.
public enum DocumentLimits {
    /// Longest document id in UTF-8 bytes: Core accepts 240 (replication.md section 7).
    public static let documentIDBytes = 240
    /// Longest digest of a revision id in hexadecimal digits. 32 and 40 are customary and Core's
    /// buffer takes 80; the rest is room for longer digests without letting ids grow without end.
    public static let revisionDigestDigits = 128
    /// Largest generation of a revision that is no deletion, whether it comes from elsewhere or is made here. Above it there is room for
    /// deletions, so that every document can be deleted everywhere. What would be a side of a conflict has to be below it, deletions too: a
    /// decision may put what lives on top.
    public static let revisionGeneration: UInt64 = (1 << 53) - 1 - 1_000_000
    /// Largest generation in what comes from elsewhere. Peers may read generations as JSON numbers, which most of them hold exactly up to here.
    public static let receivedGeneration: UInt64 = (1 << 53) - 1
    /// Largest generation that is read from a database. What is stored was accepted once, by whatever limit; this one only keeps
    /// numbers within 63 bits.
    public static let storedGeneration: UInt64 = 1 << 62
    /// Longest scope or collection name in bytes (Couchbase's rule).
    public static let collectionNameBytes = 251
    /// Most revisions one tree may hold. A tree is pruned to some 50 a branch, so this is many
    /// branches; it bounds the memory and time a hostile history or database can cost.
    public static let treeRevisions = 10_000
    /// Most ancestors accepted with one revision. Peers send what `maxHistory` asks for, 50 by default.
    public static let historyRevisions = 1_000
    /// Most versions and revisions accepted with one version vector. `VersionVector.keptVersions` are kept of them.
    public static let vectorVersions = 1_000
}

/// Bounds on JSON text.
public enum JSONLimits {
    /// Deepest nesting of arrays and objects: what Couchbase Lite takes, which would store a deeper document nowhere and say nothing.
    public static let depth = 100
    /// Most keys of an object from outside, with those of the objects around it: all of them are held to be compared with each other. Real
    /// documents have a hundred or so.
    public static let openKeys = 100_000
    /// Deepest nesting that is read from a database: older versions let in 128 levels. Readers recurse once a level.
    public static let storedDepth = 128
    /// Largest JSON text in bytes. Stores and protocols set smaller limits of their own; this one keeps
    /// offsets within 32 bits.
    public static let textBytes = 1 << 30
}
