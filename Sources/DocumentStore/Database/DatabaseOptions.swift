/// How a database behaves while it is open; none of it changes the file's format.
public struct DatabaseOptions: Sendable {
    /// How sure a write is when it returns.
    public enum Durability: Sendable {
        /// Survives a power cut: the log is synced at each commit.
        case full
        /// Survives the end of the process, not always a power cut. For tests and throw-away data.
        case process
    }

    public var durability = Durability.full
    /// Generations kept per branch.
    public var historyDepth = StoreLimits.historyDepth
    /// How long and how much of replaced bodies is kept, so that changes can travel as deltas; nil: none.
    public var deltaBases: DeltaBaseBounds? = DeltaBaseBounds()
    /// Decided conflicts kept; 0 records none.
    public var conflictHistory = StoreLimits.conflictHistory
    /// Largest document body, in bytes. Larger ones that are stored already stay.
    public var maxBodyBytes = StoreLimits.maxBodyBytes
    /// Which bodies are large, and which documents have one; its limit may change while the database is open.
    public var largeDocuments = LargeDocuments()
    /// Told of each large body that was stored. Called on the writer; must not block.
    public var onLargeDocument: @Sendable (LargeDocuments.Entry) -> Void = { _ in }
    /// Each edit made here gets a version, and not only those on top of one that a peer of version vectors made.
    public var versionsEdits = false
    /// Documents may have empty keys and keys with NUL, which Couchbase Lite cannot store.
    public var unusualKeys = false
    /// Largest blob, in bytes; `BlobStore.maxBytes` changes it while the database is open.
    public var maxBlobBytes = StoreLimits.maxBlobBytes
    /// Shared by all databases of an agent.
    public var openBlobs = OpenBlobs()
    /// Age in seconds below which an unreferenced blob is never removed.
    public var blobGraceSeconds = StoreLimits.blobGraceSeconds
    /// How long a statement waits for another process that holds SQLite's lock, before it fails.
    public var busyTimeoutMilliseconds = StoreLimits.busyTimeoutMilliseconds
    /// Readers, each with its own connection.
    public var readers = 2
    /// Page cache of the writer and of each reader, in bytes; used only as far as needed.
    public var writerCacheBytes = 16 << 20
    public var readerCacheBytes = 4 << 20
    /// Largest size of the database file in pages of 4096 bytes; `nil` = SQLite's own maximum.
    public var maxPages: Int64? = nil

    /// Told each problem with the database's files when it is first met: `.corrupt`, `.fileGone`, `.documentDamaged`, `.blobAltered`, and
    /// `.blobMissing` of one that documents name. Called on a worker; must not block.
    public var onProblem: @Sendable (StoreError) -> Void = { _ in }

    /// What the database holds is counted here.
    public var usage = StoreUsage()

    /// Asked before each write that takes room, with its bytes as far as they are known: why it is refused; nil where it is not. Deletions,
    /// decisions about conflicts and what the store notes for itself are always taken. Called on a worker; must not block for long.
    public var refusal: @Sendable (StoreWrite, _ bytes: Int) -> String? = { _, _ in nil }

    /// Told when the disk has failed for a write, full or not. Called on the writer; must not block for long.
    ///
    /// - Returns: whether there is room now, so that what met a full disk is tried once more.
    public var onDiskFailure: @Sendable () -> Bool = { false }

    public init() {}
}
