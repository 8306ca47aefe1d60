import Environment

/// What the writer knows about each collection without querying the database. Changed by the running job, restored if the job fails, written at the
/// end of each transaction.
struct Counters {
    /// No database counts this far: a stored value beyond it is damaged, and could not be incremented safely.
    static let bound: Int64 = 1 << 60

    var lastSequence: Int64
    var documents: Int64
    var deleted: Int64
    var isChanged = false
}

/// The writer's state, shared by all jobs of one transaction.
final class WriterState {
    /// By collection number; `nil` if there is no such collection.
    var counters: [Counters?] = []
    /// Indexes by collection number, as far as they were looked up; emptied when one was created, removed or rolled back.
    var indexes: [Int: [FieldIndex]] = [:]
    /// Rows written in the running transaction, to limit it.
    var rows = 0
    /// Sizes of documents whose body the running transaction has changed, if they are relevant to ``LargeDocuments``.
    var sizes: [LargeDocuments.Size] = []
    /// Unix seconds, read once per transaction.
    var now: Int64 = 0
    /// The same in nanoseconds.
    var wallNanoseconds: Int64 = 0
    var clock = VersionClock()
    let versions: VersionUse
    let keepers: BranchKeepers
    let random: any RandomSource
    /// Identifies the file being written, as far as the file system distinguishes it from its copies.
    let home: String

    init(_ versions: VersionUse, _ keepers: BranchKeepers, random: any RandomSource, home: String) {
        (self.versions, self.keepers, self.random, self.home) = (versions, keepers, random, home)
    }

    /// After the commit, the log should be checkpointed and its file truncated.
    var wantsShortLog = false
    /// Why the last checkpoint failed; nil if it did not.
    var logFailure: StoreError?
}
