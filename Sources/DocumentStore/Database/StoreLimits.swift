/// Named limits of the store. Each one bounds memory, disk or time that somebody
/// outside the process could otherwise make us spend.
public enum StoreLimits {
    /// Generations kept per branch of a revision tree. Couchbase peers keep 50 and
    /// send at most that much history.
    public static let historyDepth = 50
    /// Bytes of one document body; a database may take less. Sync Gateway refuses documents above about 20 MiB.
    public static let maxBodyBytes = 20 << 20
    /// Bytes of one blob. Sync Gateway stops at 20 MiB; other peers have no limit. A blob is streamed to disk, so only
    /// the disk is at stake; a gateway's often has a few GB.
    public static let maxBlobBytes: UInt64 = 256 << 20
    /// Bytes of one checkpoint or local document: they are copied whole.
    public static let maxLocalBodyBytes = 1 << 20
    /// Bytes of a checkpoint's or local document's identifier; peers choose it freely.
    public static let maxLocalIDBytes = 1024
    /// Collections of one database. Each has its own tables and prepared statements.
    public static let maxCollections = 1000
    /// Branches of one document, deleted ones as well. Of these the least go when there are more; more that live are refused: a peer could
    /// otherwise make one row grow without end.
    public static let maxBranches = 32
    /// Branches of one document that lost a decision and are kept with their tombstones, for peers that have them still.
    public static let endedBranches = 8
    /// Revisions of one document that a remote left for a lesser one, and we with it, which are remembered so that we do it once.
    static let leftRevisions = 8
    /// Indexes of one collection. Each write of a document looks at all of them.
    public static let maxIndexes = 64
    /// Bytes of keys that one page of an index returns; the row that passes it is the last.
    static let maxKeyBytesPerRead = 256 << 10
    /// Documents that one step of building an index reads, and entries that one of removing it takes away.
    static let indexRowsPerStep = 1000
    /// Remotes whose last revision is remembered in one document's row.
    public static let maxRemotesPerDocument = 64
    /// History entries accepted with one incoming revision. Peers send 50 to 100.
    public static let maxIncomingHistory = 1000
    /// Jobs that share one transaction, so that one commit is never unbounded.
    public static let maxJobsPerCommit = 1000
    /// Rows after which no further waiting job joins the running transaction: a
    /// crowd of bulk writers must not delay the first of them for seconds.
    public static let maxRowsPerCommit = 5000
    /// Rows that `changes` and other lists return at once, whatever was asked.
    public static let maxRowsPerRead = 10_000
    /// Bytes of bodies one `changes` call returns; the row that passes it is the last. Each peer that subscribes has one such page read
    /// for it before its session counts it.
    public static let maxBodyBytesPerRead = 1 << 20
    /// Characters of an error text kept with an excluded document or a conflict.
    public static let maxErrorTextBytes = 2000
    /// Bytes of a body kept in the conflict history; of a larger one its digest and size are. An entry has up to five
    /// bodies, so 1,000 entries take 160 MB at worst, and about 1 MB with documents as gateways have them.
    public static let maxHistoryBodyBytes = 32 << 10
    /// Seconds for which a replaced body is kept as the base of deltas; Sync Gateway keeps as long.
    public static let deltaBaseSeconds: Int64 = 86_400
    /// Bytes of such bodies in one database.
    public static let deltaBaseBytes: Int64 = 64 << 20
    /// Bytes of one such body; a delta is made in memory.
    public static let maxDeltaBaseBytes = 1 << 20
    /// Bytes below which a body is not worth a delta. LiteCore's.
    public static let minDeltaBaseBytes = 200
    /// Bases that one write drops at most, because their time is over or there are too many.
    static let deltaBasesDroppedPerWrite = 16
    /// Damaged documents of one database that are named in its state.
    public static let damagedDocuments = 100
    /// `large_documents`: documents of one database that are remembered as larger than somebody wants them to be, the largest.
    public static let largeDocuments = 1_000
    /// Documents that are told of those that name a blob which is altered or gone.
    static let namedDocuments = 100
    /// Blobs of one database of which it is remembered that they were read through before they were given out; some hundred bytes each.
    static let checkedBlobs = 1000
    /// Decided conflicts kept of one database.
    public static let conflictHistory = 1000
    /// Seconds an unreferenced blob is left alone: the revision that needs it may
    /// still be on its way.
    public static let blobGraceSeconds: Int64 = 3600
    /// Documents whose place in the index of ids waits in memory before it is written: an eighth of the
    /// collection, at least and at most these. The first keeps small databases from writing the index for
    /// every little batch; the second bounds memory (16 bytes each, per connection) and the time to open.
    public static let minIndexTail = 32_768
    public static let maxIndexTail = 262_144
    /// Slots of the id index tried for one document; with 48-bit hashes two are a rarity.
    static let maxSlotTries = 64
    /// Documents of the channels to which access begins that are looked up one by one; where there are more, the collection is read in order.
    static let membersPerEvent = 2000
    /// Departures of documents from channels that one page of a peer's feed looks at, and documents of each channel to which access ends.
    static let departuresPerRead = 1000
    /// `max_clock_drift`: how far a version may be ahead of this machine's clock. Further ahead, a peer's is not followed by our clock, our own
    /// name is given up for a new one, and health says so. Beyond two minutes Couchbase Lite 4 refuses a version (`HybridClock`): one fast clock must not make all others so.
    public static let clockDriftNanoseconds: UInt64 = 120_000_000_000
    /// `earliest_time`, in seconds since 1970: before 2026 no clock of this program is right. A machine without a battery says so until its clock is
    /// set, and then it is no measure of versions.
    public static let earliestSeconds: Int64 = 1_767_225_600
    static let earliestNanoseconds = UInt64(earliestSeconds) * 1_000_000_000

    /// A version's time is further ahead than clocks that are set should be.
    static func isAhead(_ time: UInt64, of now: UInt64) -> Bool { time > now && time - now > clockDriftNanoseconds }
    /// Expired documents that one transaction deletes.
    public static let expiriesPerCommit = 500
    /// `expired_documents`: the last ones of a database of which it is known that they expired; some hundred bytes each.
    public static let expiredDocuments = 10_000
    /// Pages of write-ahead log after which the writer moves them into the database.
    public static let checkpointPages: Int32 = 4000
    /// The least to which a disk that is nearly full lowers them, see `StoreUsage.logPages`.
    static let leastCheckpointPages: Int32 = 64
    /// Free pages that one transaction gives back at most, see `Database.giveBackFreePages()`: it may write as many to the log, and some more.
    static let vacuumPages: Int32 = 2000
    /// Pages of write-ahead log after which readers that keep the log from starting
    /// over are waited for (for at most `checkpointWaitMilliseconds`).
    public static let forcedCheckpointPages: Int32 = 32_000
    /// How long a statement waits for another process that holds SQLite's lock, before it fails.
    public static let busyTimeoutMilliseconds: Int32 = 5000
    /// How long a forced checkpoint waits for readers.
    public static let checkpointWaitMilliseconds: Int32 = 2000
}
