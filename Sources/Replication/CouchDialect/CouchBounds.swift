/// How much is requested from one CouchDB at a time, in which portions, and how much of an answer is accepted.
enum CouchBounds {
    // MARK: Requests

    /// `couch_rows`: rows of `_changes` in one answer.
    static let rows = 500
    /// `couch_lists`: such answers that may wait for the store.
    static let lists = 3
    /// `couch_fetch`: revisions in one `_bulk_get`.
    static let fetch = 100
    /// `couch_first_fetch`: revisions in the first ones; more as soon as it is known how large they are, and how fast they come.
    static let firstFetch = 20
    /// `couch_fetch_time`, `couch_fetch_bytes`: an answer that takes longer than this, in seconds, is followed by requests for fewer documents, as long as
    /// their answers have more than this many bytes: with little at a time, a line with a long way would hardly be used.
    static let fetchSeconds = 5
    static let fetchBytes = 256 << 10
    /// `couch_failed_fetches`: documents in a row that a peer fails to send (500), before that is taken for a failure of the peer.
    static let failedFetches = 5
    /// `couch_fetches`: such requests in flight, and documents whose attachments are being fetched separately.
    static let fetches = 3
    /// `couch_large_fetch_bytes`: for each so many bytes of `limits.memory`, one large document is requested at a time.
    static let largeFetchBytes = 16 << 20
    /// `couch_large_attempts`: how often a large document is requested again on one connection for which there was no memory beside others.
    static let largeAttempts = 3
    /// `couch_docs`, `couch_doc_bytes`: documents and bytes in one `_bulk_docs`.
    static let documents = 200
    static let documentBytes = 1 << 20
    /// `couch_writes`: such requests in flight.
    static let writes = 3
    /// `couch_heartbeat`: milliseconds between two heartbeats of an idle feed.
    static let heartbeatMilliseconds = 10_000
    /// `couch_patience`: milliseconds without a byte after which a request is aborted.
    static let patienceMilliseconds = 60_000
    /// `couch_attempts`: how often a request is sent if the peer is overloaded (429, 503).
    static let attempts = 5
    /// `couch_pause`: the longest wait before the next attempt, in seconds; a peer that asks for more ends the connection.
    static let longestPauseSeconds = 60
    /// `couch_idle_pause`: seconds before a feed is asked again that has not moved; doubles each time, up to `couch_pause`.
    static let idlePauseSeconds = 1
    /// `couch_short_pause`: nanoseconds before a feed is asked again whose last answer was neither full nor brought anything that is wanted here.
    static let shortPauseNanoseconds: UInt64 = 250_000_000
    /// `couch_slow_pause`: seconds before a peer is asked again whose answer arrived too slowly while others needed memory; doubles each time.
    static let slowPauseSeconds = 5

    // MARK: Answers

    /// `couch_answer_bytes`: size of one answer. A `_bulk_get` that exceeds it is requested in halves.
    static let answerBytes = 48 << 20
    /// `couch_small_answer_bytes`: for answers with only a few members.
    static let smallAnswerBytes = 64 << 10
    /// `couch_log_bytes`: for a replication log: fifty entries, each with sequences of several kilobytes.
    static let logBytes = 1 << 20
    /// `couch_row_bytes`: per document asked about: some hundred leaves, or the message of a validation function.
    static let rowBytes = 16 << 10
    /// `couch_tree_bytes`: memory for the parsed values of one answer. A `_bulk_get` that needs more is requested in halves.
    static let treeBytes = 256 << 20
    /// Bytes at the start of an answer that are read for what it begins with: the reason of a failure, or the document that it is about.
    static let beginningBytes = 4_096

    /// Bytes of an answer about this many documents.
    static func answerBytes(rows count: Int) -> Int { min(smallAnswerBytes + count * rowBytes, answerBytes) }

    // MARK: Leaves

    /// `couch_branched`: documents with several leaves that are remembered.
    static let branched = 10_000
    /// `couch_branched_leaves`: approximate number of leaves remembered of such documents.
    static let branchedLeaves = 100_000
    /// Memory of one of them, in bytes: its entries in a table and a set, whose capacity doubles, and its name.
    static let leafBytes = 320
    /// `couch_leaves`: leaves of one document at the peer; a document with more is not accepted. CouchDB has no limit, and a document that has
    /// been in conflict for long has thousands, of which a store here keeps `StoreLimits.maxBranches` in any case.
    static let leaves = 1_000
    /// `couch_ended`: losing branches of one document that are processed together: their names are part of a request's path.
    static let ended = 50

    // MARK: Attachments

    /// `couch_inline_bytes`: size of a document's attachments up to which they are sent inside its JSON; larger ones are sent as parts of a multipart
    /// body, piece by piece.
    static let inlineBytes: UInt64 = 1 << 20
    /// `couch_known_attachments`: attachments that a connection remembers.
    static let knownAttachments = 1_000
    /// `couch_resumptions`: how often in a row a download is resumed that makes too little progress.
    static let resumptions = 3
    /// `couch_resumption_bytes`: the progress after which an interruption does not count.
    static let resumptionBytes: UInt64 = 64 << 10
    /// `couch_resumption_pause`: seconds before an attempt; doubles with each further one in a row.
    static let resumptionPauseSeconds = 1

    // MARK: Checkpoints

    /// `couch_history`: entries of a replication log, as in CouchDB.
    static let logEntries = 50
}
