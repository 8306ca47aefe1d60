import Environment

/// What the writer knows of each collection without asking the database. Changed by the
/// running job, put back if the job fails, written at the end of each transaction.
struct Counters {
    /// No database counts as far: what is stored beyond it is damaged, and could not be counted on from.
    static let bound: Int64 = 1 << 60

    var lastSequence: Int64
    var documents: Int64
    var deleted: Int64
    var isChanged = false
}

/// The state of the writer thread that all jobs of one transaction share.
final class WriterState {
    /// By collection number; `nil` where there is none.
    var counters: [Counters?] = []
    /// Indexes by collection number, as far as they were looked for; none of them after one was made, removed or undone.
    var indexes: [Int: [FieldIndex]] = [:]
    /// Rows written in the running transaction, to bound it.
    var rows = 0
    /// Of documents whose body the running transaction has changed, where ``LargeDocuments`` are concerned.
    var sizes: [LargeDocuments.Size] = []
    /// Unix seconds, read once per transaction.
    var now: Int64 = 0
    /// The same in nanoseconds.
    var wallNanoseconds: Int64 = 0
    var clock = VersionClock()
    let versions: VersionUse
    let keepers: BranchKeepers
    let random: any RandomSource
    /// The file that is written, as far as the file system tells it from its copies.
    let home: String

    init(_ versions: VersionUse, _ keepers: BranchKeepers, random: any RandomSource, home: String) {
        (self.versions, self.keepers, self.random, self.home) = (versions, keepers, random, home)
    }

    /// After the commit the log is to be moved and its file cut to nothing.
    var wantsShortLog = false
}
