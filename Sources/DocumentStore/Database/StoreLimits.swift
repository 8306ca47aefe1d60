/// Named limits of the store. Each one bounds memory, disk space or time that somebody outside the process could otherwise make us spend.
public enum StoreLimits {
    /// Generations kept per branch of a revision tree. Couchbase peers keep 50 and
    /// send at most that much history.
    public static let historyDepth = 50
    /// Size of one document body in bytes; a database may accept less. Sync Gateway refuses documents above about 20 MiB.
    public static let maxBodyBytes = 20 << 20
    /// Size of one blob in bytes. Sync Gateway's limit is 20 MiB; other peers have none. A blob is streamed to disk, so only disk space is at stake;
    /// a gateway often has only a few GB.
    public static let maxBlobBytes: UInt64 = 256 << 20
    /// Size of one checkpoint or local document in bytes: they are copied as a whole.
    public static let maxLocalBodyBytes = 1 << 20
    /// Length of a checkpoint's or local document's identifier in bytes; peers choose it freely.
    public static let maxLocalIDBytes = 1024
    /// Collections of one database. Each has its own tables and prepared statements.
    public static let maxCollections = 1000
    /// Branches of one document, including deleted ones. If there are more, the least of the deleted ones are dropped; additional live ones are
    /// refused: otherwise a peer could make one row grow without limit.
    public static let maxBranches = 32
    /// Branches of one document that lost a decision and are kept with their tombstones, for peers that still have them.
    public static let endedBranches = 8
    /// Revisions of one document that a remote, and we after it, abandoned for a lesser one; they are remembered so that we follow only once.
    static let leftRevisions = 8
    /// Indexes of one collection. Each write of a document has to consider all of them.
    public static let maxIndexes = 64
    /// Bytes of keys that one page of an index returns; the row that exceeds it is the last.
    static let maxKeyBytesPerRead = 256 << 10
    /// Documents that one step of building an index reads, and entries that one step of removing it deletes.
    static let indexRowsPerStep = 1000
    /// Remotes whose last revision is remembered in one document's row.
    public static let maxRemotesPerDocument = 64
    /// History entries accepted with one incoming revision. Peers send 50 to 100.
    public static let maxIncomingHistory = 1000
    /// Jobs that share one transaction, so that one commit is never unbounded.
    public static let maxJobsPerCommit = 1000
    /// Rows after which no further waiting job joins the running transaction: many bulk writers must not delay the first of them for seconds.
    public static let maxRowsPerCommit = 5000
    /// Rows that `changes` and other lists return at once, whatever limit the caller passes.
    public static let maxRowsPerRead = 10_000
    /// Bytes of bodies that one `changes` call returns; the row that exceeds it is the last. For each subscribed peer, one such page is read before
    /// its session accounts for it.
    public static let maxBodyBytesPerRead = 1 << 20
    /// Bytes of an error text kept with an excluded document or a conflict; it is cut between characters.
    public static let maxErrorTextBytes = 2000
    /// Size of a body kept in the conflict history, in bytes; of a larger one, the digest and the size are kept. An entry has up to five bodies, so
    /// 1,000 entries take 160 MB at worst, and about 1 MB with documents typical of gateways.
    public static let maxHistoryBodyBytes = 32 << 10
    /// Seconds for which a replaced body is kept as a base for deltas; the same as in Sync Gateway.
    public static let deltaBaseSeconds: Int64 = 86_400
    /// Total size of such bodies in one database, in bytes.
    public static let deltaBaseBytes: Int64 = 64 << 20
    /// Size of one such body in bytes; a delta is computed in memory.
    public static let maxDeltaBaseBytes = 1 << 20
    /// Size in bytes below which a body is not worth a delta. LiteCore's value.
    public static let minDeltaBaseBytes = 200
    /// Bases that one write drops at most, because they have expired or there are too many.
    static let deltaBasesDroppedPerWrite = 16
    /// Damaged documents of one database that are listed in its state.
    public static let damagedDocuments = 100
    /// `large_documents`: the largest documents of one database that are remembered as exceeding the configured size.
    public static let largeDocuments = 1_000
    /// Documents listed as naming a blob that is altered or missing.
    static let namedDocuments = 100
    /// Blobs of one database whose verification is remembered; some hundred bytes each.
    static let checkedBlobs = 1000
    /// Decided conflicts kept of one database.
    public static let conflictHistory = 1000
    /// Seconds for which an unreferenced blob is kept: the revision that needs it may still be on its way.
    public static let blobGraceSeconds: Int64 = 3600
    /// Documents whose entry in the id index waits in memory before it is written: an eighth of the collection, but at least and at most these
    /// numbers. The minimum keeps small databases from writing the index for every small batch; the maximum bounds memory (16 bytes each, per
    /// connection) and the time to open.
    public static let minIndexTail = 32_768
    public static let maxIndexTail = 262_144
    /// Slots of the id index tried for one document; with 48-bit hashes, even two are rare.
    static let maxSlotTries = 64
    /// Documents in newly granted channels that are looked up individually; if there are more, the collection is read in order.
    static let membersPerEvent = 2000
    /// Departures of documents from channels that one page of a peer's feed examines, and documents examined of each revoked channel.
    static let departuresPerRead = 1000
    /// `max_clock_drift`: how far a version may be ahead of this machine's clock. Beyond that, our clock does not follow a peer's version, our own
    /// source id is replaced by a new one, and health reports it. Couchbase Lite 4 refuses a version more than two minutes ahead (`HybridClock`): one
    /// fast clock must not drag all others along.
    public static let clockDriftNanoseconds: UInt64 = 120_000_000_000
    /// `earliest_time`, in seconds since 1970: a clock before 2026 is wrong. A machine without a battery-backed clock has such a time until its clock
    /// is set, and until then its time cannot be used to judge versions.
    public static let earliestSeconds: Int64 = 1_767_225_600
    static let earliestNanoseconds = UInt64(earliestSeconds) * 1_000_000_000

    /// A version's time is further ahead than that of a correctly set clock should be.
    static func isAhead(_ time: UInt64, of now: UInt64) -> Bool { time > now && time - now > clockDriftNanoseconds }
    /// Expired documents that one transaction deletes.
    public static let expiriesPerCommit = 500
    /// `expired_documents`: the most recently expired documents of a database that are remembered; some hundred bytes each.
    public static let expiredDocuments = 10_000
    /// Pages of write-ahead log after which the writer moves them into the database.
    public static let checkpointPages: Int32 = 4000
    /// The lowest value to which a nearly full disk reduces this number, see `StoreUsage.logPages`.
    static let minimumCheckpointPages: Int32 = 64
    /// Free pages that one transaction releases at most, see `Database.releaseFreePages()`: it may write as many, and a few more, to the log.
    static let vacuumPages: Int32 = 2000
    /// Pages of write-ahead log after which the writer waits for readers that keep the log from being restarted (for at most
    /// `checkpointWaitMilliseconds`).
    public static let forcedCheckpointPages: Int32 = 32_000
    /// How long a statement waits for another process that holds SQLite's lock before it fails, in milliseconds.
    public static let busyTimeoutMilliseconds: Int32 = 5000
    /// How long a forced checkpoint waits for readers, in milliseconds.
    public static let checkpointWaitMilliseconds: Int32 = 2000
}
