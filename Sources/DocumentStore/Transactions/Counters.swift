/// What the writer knows of each collection without asking the database. Changed by the
/// running job, put back if the job fails, written at the end of each transaction.
struct Counters {
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
    /// Unix seconds, read once per transaction.
    var now: Int64 = 0
    /// After the commit the log is to be moved and its file cut to nothing.
    var wantsShortLog = false
}
