import Documents
import DocumentStore
import Encodings
import Environment
import HTTPServer
import Interfaces
import Logging
import Replication

/// What the listener provides to the CouchDB API, and decides for it.
package struct CouchHost: Sendable {
    /// A client that may come in.
    package struct Admitted: Sendable {
        package var peer: PassiveConfiguration
        /// Whether the client may stay, for long answers.
        package var admission: Admission

        package init(_ peer: PassiveConfiguration, _ admission: Admission = Admission()) { (self.peer, self.admission) = (peer, admission) }
    }

    /// A client that may come in, whichever databases its request names. Its credentials were judged once, and are not judged again for each of them.
    package struct Authenticated: Sendable {
        /// Determines what the client may do in a database. Throws ``HTTPError`` 401, 404, 503.
        package var admit: @Sendable (_ database: String) async throws -> Admitted

        package init(admit: @escaping @Sendable (_ database: String) async throws -> Admitted) { self.admit = admit }
    }

    package var version: String
    /// Stable for the lifetime of the data.
    package var uuid: String
    package var environment: Environment
    package var logger: Logger
    /// Logs each query at debug level; nil for no logging.
    package var queryLogger: Logger?
    package var access = PeerAccess()
    package var memory: AnswerMemory
    /// Called with documents that were stored, and with those that are too large (413) or for which there is no room (507).
    package var documents: @Sendable (_ events: [DocumentEvent], _ peer: PassiveConfiguration, _ remote: String) -> Void = { _, _, _ in }
    /// Called with the refusal of a request that is too large (413), if it does not say which documents it has.
    package var refusedRequest: @Sendable (_ refusal: ReplicationError, _ collection: CollectionName, _ peer: PassiveConfiguration, _ remote: String) -> Void = { _, _, _, _ in }
    /// The databases that the listener serves.
    package var databases: [String]
    /// Determines who sent the request, and what the sender may do in a database. Throws ``HTTPError`` 401, 404, 503.
    package var admit: @Sendable (_ request: HTTPRequest, _ database: String) async throws -> Admitted
    /// Determines whether the sender may come in at all, for whichever databases. Throws as ``admit``.
    package var authenticate: @Sendable (HTTPRequest) async throws -> Authenticated
    /// Handles `_session` for the whole server.
    package var session: @Sendable (HTTPRequest) async throws -> HTTPResponse
    /// A plugin's push filter by its name, with the query's parameters. Throws ``HTTPError`` 404.
    package var filter: @Sendable (_ plugin: String, _ parameters: [(key: String, value: String)]) throws -> any DocumentFilter

    package init(
        version: String, uuid: String, environment: Environment, logger: Logger, memory: AnswerMemory, databases: [String],
        admit: @escaping @Sendable (HTTPRequest, String) async throws -> Admitted,
        authenticate: @escaping @Sendable (HTTPRequest) async throws -> Authenticated,
        session: @escaping @Sendable (HTTPRequest) async throws -> HTTPResponse,
        filter: @escaping @Sendable (String, [(key: String, value: String)]) throws -> any DocumentFilter
    ) {
        (self.version, self.uuid, self.environment, self.logger, self.databases) = (version, uuid, environment, logger, databases)
        self.memory = memory
        (self.admit, self.authenticate, self.session, self.filter) = (admit, authenticate, session, filter)
    }
}

/// A request for a database, from a client that was let in.
struct CouchCall: Sendable {
    let host: CouchHost
    let request: HTTPRequest
    let query: CouchQuery
    let peer: PassiveConfiguration
    let collection: Collection
    /// Whether the client may stay.
    let admission: Admission
    /// The memory held for the answer.
    let answer: AnswerMemory.Answer
    /// Blobs that were received with the request.
    let arrived = ArrivedBlobs()

    var database: Database { peer.database }
    var remote: String { request.connection.remoteAddress }
    var acceptsGzip: Bool {
        request.headers.list("Accept-Encoding").contains { HeaderList.sameName($0, "gzip") || $0.utf8.starts(with: "gzip;q=1".utf8) }
    }

    /// For compressing the answer; nil if the client does not accept that.
    var packing: AnswerMemory? { acceptsGzip ? host.memory : nil }

    /// Whether the client said that it has the version with this tag. Tags are compared as strong even if marked weak, since ours always identify
    /// identical contents.
    func holds(_ tag: String) -> Bool {
        request.headers.list("If-None-Match").contains { $0 == tag || $0 == "W/\(tag)" || $0 == "*" }
    }

    /// Checked before anything more is read for the client, because the answer may already have taken long.
    ///
    /// - Throws: ``HTTPError`` 401 for a client that was disconnected, 503 if the listener is stopping.
    func requireAdmission() async throws(HTTPError) {
        guard await admission.settled() else { throw admission.refusal }
    }

    /// Tells the listener about documents that were stored, or that are too large and that the client may give up, or for which there is no room.
    ///
    /// - Parameter isMade: the revisions were made elsewhere, so that they wait there until there is room. Whoever edits knows at once, and may not come again.
    func tell(_ ids: [DocumentID], _ error: HTTPError? = nil, isMade: Bool = false) {
        guard !ids.isEmpty, error.map({ $0.status == 413 || $0.status == 507 && isMade }) ?? true else { return }
        let failure = error.map { ReplicationError(refusal: $0) }
        host.documents(ids.map { DocumentEvent(id: $0, collection: collection.name, direction: .pull, error: failure) }, peer, remote)
    }

    /// Tells the listener about a request that is too large as a whole: none of its documents are stored, and the client may give them up.
    ///
    /// - Parameter beginning: what came of its text.
    func tell(refused error: HTTPError, _ place: AttachmentSieve.Place, beginning: [UInt8]) {
        guard error.status == 413 else { return }
        let ids = JSONParts(checked: beginning).documents(place, atMost: CouchLimits.refusedDocuments)
        if ids.isEmpty { host.refusedRequest(ReplicationError(refusal: error), collection.name, peer, remote) } else { tell(ids, error) }
    }

    /// Writes a document, and tells the listener if it is too large.
    func telling<Value>(_ id: String?, _ write: () async throws -> Value) async throws -> Value {
        do { return try await write() } catch {
            if case .document(let id)? = id.flatMap({ try? CouchID($0) }) { tell([id], HTTPError(couch: error)) }
            throw error
        }
    }

    /// The URL of a document, or of its attachment, for the client; nil if the request did not name this server.
    func location(of id: String, attachment: String? = nil) -> String? {
        guard let host = request.headers.first("Host"), HeaderList.isSendable("Location", host) else { return nil }
        let database = request.path.utf8.split(separator: UInt8(ascii: "/")).first.map { String(Substring($0)) } ?? ""
        let isPrefixed = id.utf8.starts(with: "_design/".utf8)
        let name = (isPrefixed ? "_design/" : "") + PercentEncoding.encode(isPrefixed ? String(id.dropFirst(8)) : id)
        let part = attachment.map { "/\(PercentEncoding.encode($0))" } ?? ""
        return "\(request.connection.identity == nil ? "http" : "https")://\(host)/\(database)/\(name)\(part)"
    }

    func context(_ direction: Direction) -> PolicyContext { peer.policyContext(collection.name, direction, remote: remote) }

    /// The body as JSON text.
    ///
    /// - Parameter refused: called with the beginning of a body that is too large.
    /// - Throws: ``HTTPError`` 415, 413, 400.
    func json(_ limit: NamedLimit = CouchCall.jsonLimit, refused: (_ beginning: [UInt8], HTTPError) -> Void = { _, _ in }) async throws -> [UInt8] {
        try request.checkJSONType()
        return try await bytes(limit, refused: refused)
    }

    /// Of what is read whole, and stored. Attachments are taken piece by piece, up to the store's own limit.
    static let jsonLimit = NamedLimit("couchdb_request_bytes", CouchLimits.requestBytes)
    /// For requests that only ask for data.
    static let listLimit = NamedLimit("couchdb_list_bytes", CouchLimits.listBytes)
    /// For queries.
    static let findLimit = NamedLimit("couchdb_find_bytes", CouchLimits.findBytes)

    /// - Parameter refused: called with the beginning of a body that is too large.
    /// - Throws: ``HTTPError`` 413, without reading anything if the declared length is too large; 400 for invalid gzip.
    func bytes(_ limit: NamedLimit = CouchCall.jsonLimit, refused: (_ beginning: [UInt8], HTTPError) -> Void = { _, _ in }) async throws -> [UInt8] {
        var body = request.body
        body.limit = limit
        let inflater = try inflater()
        let bytes = try await body.bytes(unpacking: inflater, refused: refused)
        try inflater?.requireEnd()
        return bytes
    }

    /// Decompresses the body; nil if it is not compressed.
    ///
    /// - Throws: ``HTTPError`` 503.
    func inflater() throws(HTTPError) -> Inflater? {
        guard request.isGzipped, !request.body.isEmpty else { return nil }
        guard let inflater = Inflater() else { throw HTTPError(503, "there is no memory to unpack the body", headers: ["Retry-After": "1"]) }
        return inflater
    }

    /// For one attachment.
    var blobLimit: NamedLimit { NamedLimit("max_blob_bytes", Int(clamping: database.blobs.maxBytes)) }

    /// The parsed body, whose memory the answer holds from now on: it may take sixty times as much as the text.
    ///
    /// - Parameters:
    ///   - isOptional: whether an empty body counts as an empty object.
    ///   - keysMayRepeat: whether keys may repeat, in which case the last one counts, as in CouchDB.
    /// - Throws: ``HTTPError`` 415, 413, 400; 503 if there is no memory.
    func jsonObject(_ limit: NamedLimit = CouchCall.listLimit, isOptional: Bool = false, keysMayRepeat: Bool = false) async throws -> JSONObject {
        let bytes = try await json(limit)
        if bytes.isEmpty, isOptional { return JSONObject() }
        request.body.noteWaiting()
        let object = try await answer.asking(JSONTreeSize.bytes(of: bytes)) {
            do {
                let value = keysMayRepeat ? try JSONValue(stored: bytes) : try JSONValue(parsing: bytes)
                guard case .object(let object) = value else { throw CouchError.badRequest("Request body must be a JSON object") }
                return object
            } catch let error as JSONError { throw CouchError.invalidJSON(error) }
        }
        // The text is no longer needed; a feed would otherwise hold it for as long as it lasts.
        request.body.relinquish()
        return object
    }

    /// Refuses a client that may not write, before its body is read.
    func requireWriting() throws(HTTPError) {
        if let why = peer.pushRefusalReason { throw CouchError.forbidden(why) }
    }

    /// Neither channels nor a filter restrict what the client may read, so it may also read what no policy is asked about.
    var readsEverything: Bool { peer.channelPeer == nil && peer.pushFilter == nil }

    /// The peer may read and write everything.
    var isUnbounded: Bool { readsEverything && peer.pullFilter == nil && peer.pushRefusalReason == nil }

    /// Policies are asked about documents. What else a client writes is everybody's, and for those only whom no policy bounds.
    ///
    /// - Parameter everyChannel: whether access to the channel `*` is enough if there are channels.
    func requireUnrestrictedAccess(everyChannel: Bool = false, _ refusal: @autoclosure () -> String) async throws {
        try requireWriting()
        var isFree = peer.pullFilter == nil && peer.pushFilter == nil
        if isFree, let bound = peer.channelPeer {
            isFree = everyChannel
            if everyChannel {
                try await host.access.note(peer, collection)
                let collection = collection
                isFree = try await database.read { try $0.channelAccess(collection, of: bound).channels.contains("*") }
            }
        }
        guard isFree else { throw CouchError.forbidden(refusal()) }
    }

    var writing: PeerWriting {
        var writing = PeerWriting(peer, collection, access: host.access, remote: remote, environment: host.environment) { [admission] in
            if await admission.settled() { return nil }
            let refusal = admission.refusal
            return ReplicationError(domain: .http, code: refusal.status, message: refusal.reason)
        }
        writing.arrived = arrived
        return writing
    }
}

extension HTTPRequest {
    /// - Throws: ``HTTPError`` 415.
    func checkJSONType() throws(HTTPError) {
        let type = headers.first("Content-Type") ?? ""
        let media = String(Substring(type.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }))
        // HTML forms of other sites can send POST requests, but not PUT.
        guard method != "POST" || media.utf8.isEmpty || HeaderList.sameName(media, "application/json") else {
            throw HTTPError(415, "Content-Type must be application/json", error: "bad_content_type")
        }
    }
}
