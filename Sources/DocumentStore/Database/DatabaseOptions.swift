/// How an open database behaves; none of this changes the file format.
public struct DatabaseOptions: Sendable {
    /// How durable a write is when it returns.
    public enum Durability: Sendable {
        /// Survives a power failure: the log is synced at each commit.
        case full
        /// Survives the end of the process, but not always a power failure. For tests and throw-away data.
        case process
    }

    public var durability = Durability.full
    /// Generations kept per branch.
    public var historyDepth = StoreLimits.historyDepth
    /// How long and how much of replaced bodies is kept as bases for deltas; nil: nothing.
    public var deltaBases: DeltaBaseBounds? = DeltaBaseBounds()
    /// Decided conflicts kept; 0 records none.
    public var conflictHistory = StoreLimits.conflictHistory
    /// Largest document body, in bytes. Larger ones that are already stored remain.
    public var maxBodyBytes = StoreLimits.maxBodyBytes
    /// Defines which bodies count as large, and lists the documents that have one; its limit may change while the database is open.
    public var largeDocuments = LargeDocuments()
    /// Called for each large body that was stored. Runs on the writer; must not block.
    public var onLargeDocument: @Sendable (LargeDocuments.Entry) -> Void = { _ in }
    /// Every local edit gets a version, not only those on top of a version made by a peer with version vectors.
    public var versionsEdits = false
    /// Documents may have empty keys and keys with NUL, which Couchbase Lite cannot store.
    public var unusualKeys = false
    /// Largest blob, in bytes; `BlobStore.maxBytes` changes it while the database is open.
    public var maxBlobBytes = StoreLimits.maxBlobBytes
    /// Shared by all databases of an agent.
    public var openBlobs = OpenBlobs()
    /// Age in seconds below which an unreferenced blob is never removed.
    public var blobGraceSeconds = StoreLimits.blobGraceSeconds
    /// How long a statement waits for another process that holds SQLite's lock before it fails, in milliseconds.
    public var busyTimeoutMilliseconds = StoreLimits.busyTimeoutMilliseconds
    /// Number of readers, each with its own connection.
    public var readers = 2
    /// Page cache of the writer and of each reader, in bytes; allocated only as needed.
    public var writerCacheBytes = 8 << 20
    public var readerCacheBytes = 2 << 20
    /// Maximum size of the database file in pages of 4096 bytes; `nil`: SQLite's own maximum.
    public var maxPages: Int64? = nil

    /// Called when a problem with the database's files is first encountered: `.corrupt`, `.fileGone`, `.documentDamaged`, `.blobAltered`, and
    /// `.blobMissing` for a blob that documents name. Runs on a worker; must not block.
    public var onProblem: @Sendable (StoreError) -> Void = { _ in }

    /// Counts what the database holds.
    public var usage = StoreUsage()

    /// Called before each write that takes space, with its size as far as it is known; returns why the write is refused, or nil to accept it.
    /// Deletions, conflict decisions and the store's own notes are always accepted. Runs on a worker; must not block for long.
    public var refusal: @Sendable (StoreWrite, _ bytes: Int) -> String? = { _, _ in nil }

    /// Called when the disk has failed for a write, because it is full or otherwise. Runs on the writer; must not block for long.
    ///
    /// - Returns: whether there is space again, so that a write that failed because of a full disk is retried once.
    public var onDiskFailure: @Sendable () -> Bool = { false }

    public init() {}
}
