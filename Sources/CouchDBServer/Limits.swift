/// Every limit of the CouchDB API, with its default and the reason for it. Limits on documents, blobs, connections and memory belong to the modules
/// below.
enum CouchLimits {
    /// `couchdb_request_bytes`: the JSON body of one request; HTTP 413. Taken from `limits.memory`. Clients send batches of a hundred or more
    /// documents with attachments. At most half of the default of `limits.memory`, so that a batch is never told to come back later although there
    /// will never be enough memory for it.
    static let requestBytes = 32 << 20
    /// `couchdb_batch_bytes`: one `_bulk_docs` request or document including its attachments, which are stored as they arrive; if compressed, also
    /// its uncompressed size; HTTP 413. The same as CouchDB's request limit.
    static let batchBytes = Int(clamping: UInt64(4) << 30)
    /// The text of such a request without its attachments, if it is longer than `couchdb_request_bytes`.
    static let batchTextBytes = requestBytes / 2
    /// Memory for one attachment on its way from such a request to the store: base64 digits and decoded bytes.
    static let attachmentBytes = 160 << 10
    /// `couchdb_list_bytes`: the JSON body of a request for data: lists of ids, keys and revisions; HTTP 413. Its parsed form is taken from
    /// `limits.memory`, at most half of it: some 100,000 ids.
    static let listBytes = 4 << 20
    /// `couchdb_documents`: documents in one `_bulk_docs` request; HTTP 413. The same as in CouchDB.
    static let documents = 10_000
    /// `couchdb_refused_documents`: documents of a request that is too large of which the operator is told by name.
    static let refusedDocuments = 1_000
    /// `couchdb_member_values`: JSON values in a document's `_attachments` and in its `_revisions`, which are parsed completely; HTTP 413.
    static let memberValues = 20_000
    /// `couchdb_login_bytes`: a request with name and password.
    static let loginBytes = 16 << 10
    /// Bytes of documents that are read at once for an answer.
    static let pageBytes = 1 << 20
    /// Rows that are read at once for an answer.
    static let pageRows = 500
    /// Bytes of a blob that are read at once: a multiple of three, so that base64 needs no padding in between.
    static let pieceBytes = 96 << 10
    /// `couchdb_uuids`: ids that one request may ask for.
    static let uuids = 1000
    /// `couchdb_part_header_bytes`: the header of one part in a multipart body.
    static let partHeaderBytes = 8 << 10
    /// `couchdb_heartbeat`: milliseconds between two heartbeats of a feed, unless the client says otherwise.
    static let heartbeat = 60_000
    /// `couchdb_timeout`: milliseconds after which a feed without changes ends, unless the client says otherwise.
    static let timeout = 60_000
    /// `couchdb_shortest_heartbeat`: the minimum for both, in milliseconds.
    static let shortest = 1000
    /// `couchdb_readers`: requests that read documents concurrently. How much each reads beyond a page is not known in advance.
    static let readers = 2
    /// `couchdb_matchers`: requests that match documents with a selector concurrently. Each holds a page meanwhile, and a selector may take long;
    /// requests that only read should not wait for it.
    static let matchers = 2
    /// `couchdb_writers`: requests larger than ``smallWrite`` whose documents are parsed and stored concurrently; larger than ``largeWrite``, only
    /// one.
    static let writers = 2
    static let smallWrite = 64 << 10
    static let largeWrite = 4 << 20
    /// Selector steps after which other requests get a turn; a query then reads the rest of its page again.
    static let matchingTurn = 4_000_000
    /// Selector steps after which the thread is yielded to other work.
    static let matchingSteps = 50_000
    /// `couchdb_answer_wait`: milliseconds that a request waits for memory from `limits.memory`; HTTP 503.
    static let answerWait: UInt64 = 30_000
    /// `couchdb_answer_patience`: milliseconds after which an answer may be cut for requests that wait.
    static let answerPatience: UInt64 = 5_000
    /// `couchdb_answer_haste`: the same for answers to an address that holds more than its share, for requests of one that wants less.
    static let answerHaste: UInt64 = 1_000
    /// `couchdb_answer_forbearance`: the same for answers to an address that holds no more than its share, for requests of another one that asks for
    /// more.
    static let answerForbearance: UInt64 = 15_000
    /// `couchdb_address_share`: the part of the memory for all answers that those to one address may take up while requests of others wait: a quarter.
    /// All answers together may take up five eighths of `limits.memory`, or seven eighths if those of an address that holds no more than its share come
    /// on top, and less if the process uses memory that is not accounted for.
    static let addressShare = 4
    /// An answer with fewer bytes is not worth counting.
    static let smallAnswer = 16 << 10
    /// Rows of a feed that are read at once while there is no memory for a page.
    static let fewRows = 32
    /// Bytes of a document that are sent to its client at once.
    static let sliceBytes = 32 << 10
    /// Memory that a waiting feed occupies.
    static let feedBytes = 64 << 10
    /// `couchdb_descending_rows`: rows of a feed in descending order.
    static let descendingRows = 10_000
    /// `couchdb_descending_bytes`: memory for such a feed, including documents and revision trees.
    static let descendingBytes = 8 << 20
    /// `couchdb_queries`: number of queries in one request to `_all_docs/queries`, `_design_docs/queries` or `_local_docs/queries`.
    static let queries = 100
    /// Sorted ids held at once; temporarily twice as many.
    static let idsAtOnce = 10_000
    /// `couchdb_databases`: number of databases in one POST to `_dbs_info`. CouchDB's `max_db_number_for_dbs_info_req`.
    static let databases = 100
    /// `couchdb_find_bytes`: the body of a query, an index definition or a list of databases. A query is parsed into a tree of values, which may be
    /// sixty times as large.
    static let findBytes = 256 << 10
    /// Documents that a query returns, unless it says otherwise. The same as in CouchDB.
    static let findLimit = 25
    /// Ids in a selector that are looked up one by one; with more, the collection is read in order.
    static let findIDs = 500
    /// `couchdb_sort_rows`: sorted positions that a query without an index holds at once, temporarily twice as many; for the next ones it examines
    /// all documents again.
    static let sortRows = 10_000
    /// `couchdb_sort_bytes`: size of these positions. If they are larger, fewer are held.
    static let sortBytes = 4 << 20
    /// `couchdb_index_wait`: milliseconds that a request waits for an index it creates; it is built in any case.
    static let indexWait: UInt64 = 20_000
    /// `couchdb_index_name_bytes`: each of an index's two names.
    static let indexNameBytes = 1024
    /// `couchdb_index_bytes`: an index definition, mainly its partial selector; HTTP 413. All definitions are held in parsed form, for every write.
    static let indexBytes = 8 << 10
    /// `couchdb_revisions`: revisions that one request may ask about.
    static let revisions = 100_000
}
