/// Every bound of CouchDB's API, with its default and the reason for it. Bounds of documents, blobs, connections and memory are those of the
/// rooms beneath.
enum CouchLimits {
    /// `couchdb_request_bytes`: the JSON body of one request; HTTP 413. Drawn from `limits.memory`. Clients send batches of a hundred or
    /// more documents with attachments in them. No more than half of what `limits.memory` is by default, so that a batch is not told to
    /// come again later when there will never be room for it.
    static let requestBytes = 32 << 20
    /// `couchdb_batch_bytes`: of one `_bulk_docs` or document with the attachments in it, which are stored as they come; of a packed one also what it
    /// unpacks to; HTTP 413. CouchDB's bound of a request.
    static let batchBytes = Int(clamping: UInt64(4) << 30)
    /// What such a request may have beside its attachments, where it is longer than `couchdb_request_bytes`.
    static let batchTextBytes = requestBytes / 2
    /// What an attachment takes in memory on its way from such a request to the store: digits, and the bytes that they are.
    static let attachmentBytes = 160 << 10
    /// `couchdb_list_bytes`: the JSON body of a request that asks: lists of ids, keys and revisions; HTTP 413. It is read as a tree of values,
    /// which draws on `limits.memory` and has half of it at most: some 100,000 ids.
    static let listBytes = 4 << 20
    /// `couchdb_documents`: of one `_bulk_docs`; HTTP 413. CouchDB's.
    static let documents = 10_000
    /// `couchdb_member_values`: JSON values in a document's `_attachments` and in its `_revisions`, which are read as trees of values; HTTP 413.
    static let memberValues = 20_000
    /// `couchdb_login_bytes`: a name and a password.
    static let loginBytes = 16 << 10
    /// Bytes of documents that are read for an answer at once.
    static let pageBytes = 1 << 20
    /// Rows that are read for an answer at once.
    static let pageRows = 500
    /// Bytes of a blob that are read at once: a multiple of three, so that base64 needs no padding inside.
    static let pieceBytes = 96 << 10
    /// `couchdb_uuids`: ids that one request may ask for.
    static let uuids = 1000
    /// `couchdb_part_header_bytes`: the header of one part of a multipart body.
    static let partHeaderBytes = 8 << 10
    /// `couchdb_heartbeat`: milliseconds between two signs of life of a feed, unless the client says otherwise.
    static let heartbeat = 60_000
    /// `couchdb_timeout`: milliseconds after which a feed without changes ends, unless the client says otherwise.
    static let timeout = 60_000
    /// `couchdb_shortest_heartbeat`: milliseconds below which neither goes.
    static let shortest = 1000
    /// `couchdb_readers`: requests that read documents at once. What each of them reads beyond a page is not known before.
    static let readers = 2
    /// `couchdb_matchers`: requests whose documents are matched with a selector at once. Each holds a page meanwhile, and a selector may take
    /// long: others that only read are not to wait for it.
    static let matchers = 2
    /// `couchdb_writers`: requests of more than ``smallWrite`` whose documents are taken apart and stored at once; of more than ``largeWrite`` one.
    static let writers = 2
    static let smallWrite = 64 << 10
    static let largeWrite = 4 << 20
    /// Steps of a selector after which other requests that match get their turn; a query reads what is left of its page again.
    static let matchingTurn = 4_000_000
    /// Steps of a selector after which other work gets the thread.
    static let matchingSteps = 50_000
    /// `couchdb_answer_wait`: milliseconds that a request waits for room in `limits.memory`; HTTP 503.
    static let answerWait: UInt64 = 30_000
    /// `couchdb_answer_patience`: milliseconds after which an answer may be cut for others that wait.
    static let answerPatience: UInt64 = 5_000
    /// Bytes of an answer that are not worth counting.
    static let smallAnswer = 16 << 10
    /// Bytes of a document that go to its client at once.
    static let sliceBytes = 32 << 10
    /// What a feed that waits keeps of the agent's memory.
    static let feedBytes = 64 << 10
    /// `couchdb_descending_rows`: rows of a feed that is read backwards.
    static let descendingRows = 10_000
    /// `couchdb_descending_bytes`: of such a feed in memory, with the documents and the trees of their revisions.
    static let descendingBytes = 8 << 20
    /// `couchdb_queries`: of one request for `_all_docs/queries`, `_design_docs/queries` or `_local_docs/queries`.
    static let queries = 100
    /// Ids in order that are held at once, twice as many meanwhile.
    static let idsAtOnce = 10_000
    /// `couchdb_databases`: of one POST to `_dbs_info`. CouchDB's `max_db_number_for_dbs_info_req`.
    static let databases = 100
    /// `couchdb_find_bytes`: the body of a query, of an index's definition or of a list of databases. A query is read as a tree of values, which
    /// may be sixty times as large.
    static let findBytes = 256 << 10
    /// Documents that a query asks for, unless it says otherwise. CouchDB's.
    static let findLimit = 25
    /// Ids of a selector that are looked up one by one; with more of them the collection is read in order.
    static let findIDs = 500
    /// `couchdb_sort_rows`: places in order that a query without an index holds at once, twice as many meanwhile; it looks at all documents again
    /// for the next ones.
    static let sortRows = 10_000
    /// `couchdb_sort_bytes`: of such places. Where they are larger, fewer are held.
    static let sortBytes = 4 << 20
    /// `couchdb_index_wait`: milliseconds that a request waits for the index that it makes; it is built in any case.
    static let indexWait: UInt64 = 20_000
    /// `couchdb_index_name_bytes`: each of an index's two names.
    static let indexNameBytes = 1024
    /// `couchdb_index_bytes`: an index's definition, its partial selector above all; HTTP 413. All of them are held as trees of values, for each write.
    static let indexBytes = 8 << 10
    /// `couchdb_revisions`: revisions that one request may ask about.
    static let revisions = 100_000
}
