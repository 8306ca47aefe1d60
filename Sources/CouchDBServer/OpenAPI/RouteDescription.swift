import Documents

/// What the OpenAPI document says about one route, besides its path.
struct RouteDescription: Sendable {
    enum Body: Sendable {
        /// JSON with this schema, by its name in ``Schemas``.
        case json(String)
        case bytes
        /// A document, possibly with its attachments as further parts.
        case document
        /// Name and password.
        case login
    }

    enum Answer: ExpressibleByStringLiteral {
        /// JSON with this schema.
        case json(String)
        case bytes
        /// Documents as JSON, or as multipart with one part each.
        case parts
        /// Changes, in the form that `feed` names.
        case feed

        init(stringLiteral schema: String) { self = .json(schema) }
    }

    var summary: String
    /// In the query string.
    var parameters: [String] = []
    /// In the header.
    var headers: [String] = []
    var body: Body?
    /// Whether a request without a body can succeed.
    var isBodyOptional = false
    /// The status of success, and other statuses that are not errors.
    var success: [Int] = [200]
    /// The body with these statuses.
    var answer: Answer
    /// Errors in addition to those that any request may have: see ``commonErrors``.
    var errors: [Int] = []
    /// Open to anonymous requests.
    var isOpen = false

    /// Errors that any request may have.
    var commonErrors: [Int] { isOpen ? [400, 401, 404, 413, 415, 503] : [400, 401, 403, 404, 413, 415, 503] }

    init(
        _ summary: String, _ parameters: [String] = [], headers: [String] = [], body: Body? = nil, isBodyOptional: Bool = false, success: [Int] = [200],
        answer: Answer = "Object", errors: [Int] = [], isOpen: Bool = false
    ) {
        (self.summary, self.parameters, self.headers, self.body, self.isBodyOptional) = (summary, parameters, headers, body, isBodyOptional)
        (self.success, self.answer, self.errors, self.isOpen) = (success, answer, errors, isOpen)
    }
}

/// By method and pattern. A test checks that routes and descriptions match.
extension RouteDescription {
    private static let reading = [
        "rev", "revs", "revs_info", "conflicts", "deleted_conflicts", "meta", "open_revs", "latest", "attachments", "atts_since", "local_seq",
    ]
    private static let changes = [
        "feed", "since", "limit", "style", "include_docs", "conflicts", "attachments", "descending", "filter", "doc_ids", "channels", "heartbeat", "timeout", "seq_interval", "last-event-id",
        "view",
    ]
    private static let allDocuments = [
        "key", "keys", "startkey", "endkey", "inclusive_end", "descending", "limit", "skip", "include_docs", "conflicts", "attachments", "update_seq",
    ]

    private static let designDocuments = [
        "key", "keys", "startkey", "endkey", "inclusive_end", "descending", "limit", "skip", "include_docs",
    ]

    private static let localDocuments = designDocuments + ["update_seq"]

    static let all: [String: RouteDescription] = server.merging(database) { first, _ in first }.merging(documents) { first, _ in first }

    private static let server: [String: RouteDescription] = [
        "GET /": .init("Says what answers here, and its version.", isOpen: true),
        "GET /_up": .init("For load balancers: the process answers.", isOpen: true),
        "GET /_openapi.json": .init("This description.", isOpen: true),
        "GET /_uuids": .init("Random ids for documents.", ["count"], errors: [403], isOpen: true),
        "GET /_all_dbs": .init(
            "The databases that this listener serves.", ["startkey", "endkey", "inclusive_end", "descending", "limit", "skip"], answer: "Strings"),
        "GET /_dbs_info": .init(
            "What GET says of each of these databases.", ["startkey", "endkey", "inclusive_end", "descending", "limit", "skip"], answer: "Objects"),
        "POST /_dbs_info": .init("The same for the databases that keys names, 100 at most.", body: .json("DatabaseNames"), answer: "Objects"),
        "GET /_session": .init("Who the request comes from.", isOpen: true),
        "POST /_session": .init("Logs in: the answer sets the cookie AuthSession.", body: .login, isOpen: true),
        "DELETE /_session": .init("Ends the session.", isOpen: true),
    ]

    private static let database: [String: RouteDescription] = [
        "GET /:db": .init("About the database."),
        "PUT /:db": .init("Databases are made in the configuration: says whether this one exists.", success: [], errors: [412]),
        "DELETE /:db": .init("Databases are removed in the configuration.", success: []),
        "POST /:db": .init("Saves a document, under an id of the server's where it has none.", ["batch"], body: .json("Document"), success: [201, 202], answer: "Saved", errors: [409, 412, 507]),
        "POST /:db/_bulk_docs": .init("Saves documents; with new_edits false, as replication sends them.", body: .json("BulkDocuments"), success: [201], answer: "Objects", errors: [417, 507]),
        "POST /:db/_bulk_get": .init(
            "Reads many revisions, as JSON or, for a client that does not accept it, in parts with their attachments.", ["revs", "latest", "attachments"],
            body: .json("BulkGet"), answer: .parts),
        "POST /:db/_revs_diff": .init("Which of these revisions are not here.", body: .json("Revisions")),
        "POST /:db/_missing_revs": .init("The same in an older form.", body: .json("Revisions")),
        "GET /:db/_changes": .init("What changed, as a list or as it comes; filter=PLUGIN runs the plugin's push_filter with the other parameters.", changes, answer: .feed),
        "POST /:db/_changes": .init("The same; doc_ids or a selector are in the body.", changes, body: .json("ChangesQuestion"), isBodyOptional: true, answer: .feed),
        "GET /:db/_all_docs": .init("All documents in the order of their ids.", allDocuments),
        "POST /:db/_all_docs": .init("The same; the parameters may be in the body.", allDocuments, body: .json("Object"), isBodyOptional: true),
        "GET /:db/_design_docs": .init("The design documents, which are kept and not run, and those of indexes.", designDocuments),
        "POST /:db/_design_docs": .init("The same; the parameters may be in the body.", designDocuments, body: .json("Object"), isBodyOptional: true),
        "POST /:db/_design_docs/queries": .init("Several such questions at once.", body: .json("Queries")),
        "GET /:db/_local_docs": .init("The user's own documents that are not replicated.", localDocuments),
        "POST /:db/_local_docs": .init("The same; the parameters may be in the body.", localDocuments, body: .json("Object"), isBodyOptional: true),
        "POST /:db/_local_docs/queries": .init("Several such questions at once.", body: .json("Queries")),
        "GET /:db/_partition/*rest": .init("Databases have no partitions.", success: []),
        "POST /:db/_partition/*rest": .init("Databases have no partitions.", body: .json("Object"), isBodyOptional: true, success: []),
        "POST /:db/_all_docs/queries": .init("Several such questions at once.", body: .json("Queries")),
        "POST /:db/_purge": .init("Removes revisions without a tombstone; peers are not told.", body: .json("Revisions"), success: [201]),
        "POST /:db/_ensure_full_commit": .init("What was acknowledged is on the disk already.", success: [201]),
        "GET /:db/_security": .init("Permissions are set in the configuration: the lists are empty."),
        "PUT /:db/_security": .init("Permissions are set in the configuration.", body: .json("Object"), isBodyOptional: true, success: []),
        "GET /:db/_revs_limit": .init("How many revisions of a history are kept.", answer: "Integer"),
        "PUT /:db/_revs_limit": .init("That is in the configuration.", body: .json("Integer"), isBodyOptional: true, success: []),
        "POST /:db/_compact": .init("The agent compacts by itself; nothing is done.", success: [202]),
        "POST /:db/_compact/:ddoc": .init("The same for the views of a design document: nothing is done.", success: [202]),
        "POST /:db/_temp_view": .init("There are no views.", body: .json("Object"), isBodyOptional: true, success: [], errors: [410]),
        "POST /:db/_view_cleanup": .init("There are no views; nothing is done.", success: [202]),
        "POST /:db/_find": .init("Documents that match a selector.", body: .json("Query")),
        "POST /:db/_explain": .init("Which index a query uses, and why not another.", body: .json("Query")),
        "GET /:db/_index": .init("The indexes."),
        "POST /:db/_index": .init("Makes an index.", body: .json("Index")),
        "POST /:db/_index/_bulk_delete": .init("Removes indexes.", body: .json("IndexNames")),
        "DELETE /:db/_index/:ddoc/json/:name": .init("Removes an index."),
        "DELETE /:db/_index/_design/:ddoc/json/:name": .init("The same, by the design document's whole id."),
    ]

    private static let documents: [String: RouteDescription] = {
        var all: [String: RouteDescription] = [:]
        let document = "/:db/:doc"
        all["GET \(document)"] = .init("Reads a document.", reading, headers: ["If-None-Match"], success: [200, 304], answer: "AnyJSON")
        all["PUT \(document)"] = .init("Saves a document.", ["rev", "new_edits", "batch"], headers: ["If-Match"], body: .document, success: [201, 202], answer: "Saved", errors: [409, 412, 507])
        all["DELETE \(document)"] = .init("Deletes a document.", ["rev", "batch"], headers: ["If-Match"], success: [200, 202], answer: "Saved", errors: [409, 507])
        all["COPY \(document)"] = .init("Copies a document.", ["rev", "batch"], headers: ["Destination"], success: [201, 202], answer: "Saved", errors: [409, 507])
        let design = "/:db/_design/:doc"
        all["GET \(design)"] = .init("Reads a design document, which is kept and not run.", ["revs", "open_revs", "latest"], answer: "AnyJSON")
        all["PUT \(design)"] = .init("Saves a design document.", ["rev", "new_edits", "batch"], headers: ["If-Match"], body: .document, success: [201, 202], answer: "Saved", errors: [409, 507])
        all["DELETE \(design)"] = .init("Deletes a design document.", ["rev", "batch"], headers: ["If-Match"], success: [200, 202], answer: "Saved", errors: [409, 507])
        all["COPY \(design)"] = .init("Design documents cannot be copied.", success: [])
        let local = "/:db/_local/:doc"
        all["GET \(local)"] = .init("Reads a document that is not replicated.", headers: ["If-None-Match"], success: [200, 304])
        all["PUT \(local)"] = .init("Saves a document that is not replicated; _rev in it names the revision that it replaces.", body: .json("Document"), success: [201], answer: "Saved", errors: [409, 507])
        all["DELETE \(local)"] = .init("Deletes a document that is not replicated.", ["rev"], answer: "Saved", errors: [409, 507])
        all["COPY \(local)"] = .init("Documents that are not replicated cannot be copied.", success: [])
        let attachment = "/:db/:doc/*name"
        all["GET \(attachment)"] = .init("Reads an attachment, or a part of it.", ["rev"], headers: ["Range", "If-Range", "If-None-Match"], success: [200, 206, 304], answer: .bytes, errors: [416])
        all["PUT \(attachment)"] = .init("Saves an attachment, which makes a new revision.", ["rev", "batch"], headers: ["If-Match", "Content-MD5"], body: .bytes, isBodyOptional: true, success: [201, 202], answer: "Saved", errors: [409, 507])
        all["DELETE \(attachment)"] = .init("Removes an attachment, which makes a new revision.", ["rev", "batch"], headers: ["If-Match"], success: [200, 202], answer: "Saved", errors: [409, 507])
        for method in ["GET", "POST", "PUT", "DELETE"] {
            all["\(method) /:db/_design/:doc/*rest"] = .init("Views, lists and attachments of design documents: not here.", success: [], errors: [501])
        }
        return all
    }()
}
