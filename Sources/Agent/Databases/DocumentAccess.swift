import Documents
import DocumentStore
import Encodings
import Interfaces
import Replication

/// Reads and edits the documents of one collection as JSON, in CouchDB's form: `_id`, `_rev`, `_deleted`, then the body.
package struct DocumentAccess: Sendable {
    package let database: Database
    package let collection: Collection
    /// Decides when a save is based on a revision that is no longer current; nil to refuse such saves.
    package var saves: SaveDecider?
    /// The same with a plugin that a save names; nil if there are no plugins.
    package var saveDeciderFor: (@Sendable (_ plugin: String) throws -> SaveDecider)?
    /// Asked about each write; nil accepts everything.
    package var validation: LocalValidation?
    /// Another collection of the database, for import lines that name one; nil if they may not.
    package var elsewhere: (@Sendable (CollectionName) throws -> DocumentAccess)?
    /// Stores import lines even if blobs that they refer to are missing here: an import also brings the blobs that exist.
    package var importsWithoutBlobs = false

    /// - Parameter name: `DB` or `DB.SCOPE.COLLECTION`.
    package init(_ database: Database, collection name: CollectionName) throws(AgentError) {
        guard let collection = database.collection(name) else {
            throw AgentError(.notFound, "database \(database.name) has no collection \(name)")
        }
        self.database = database
        self.collection = collection
    }

    /// Splits `DB`, `DB.COLLECTION` or `DB.SCOPE.COLLECTION` into its parts.
    package static func parse(_ text: String) throws(AgentError) -> (database: String, collection: CollectionName) {
        guard let dot = text.utf8.firstIndex(of: UInt8(ascii: ".")) else { return (text, .default) }
        do {
            return (String(text[..<dot]), try CollectionName(parsing: String(text[text.utf8.index(after: dot)...])))
        } catch {
            throw AgentError(.invalid, "\(text): \(error)")
        }
    }

    /// The JSON of a document.
    ///
    /// - Parameters:
    ///   - purgeTime: the value of `_exp`, in seconds since 1970.
    ///   - collection: written as `_collection`, for output with several collections.
    package static func json(
        id: DocumentID, revision: RevisionID, vector: VersionVector? = nil, isDeleted: Bool, body: [UInt8], purgeTime: Int64? = nil,
        collection: CollectionName? = nil
    ) -> [UInt8] {
        var json = Array("{\"_id\":".utf8)
        JSONValue.string(id.text).serialize(into: &json)
        json += Array(",\"_rev\":\"\(revision.text)\"\(isDeleted ? ",\"_deleted\":true" : "")".utf8)
        // Collection names need no escaping.
        if let collection { json += Array(",\"_collection\":\"\(collection.wireName)\"".utf8) }
        if let vector { json += Array(",\"_cv\":\"\(vector.current)\",\"_vv\":\"\(vector.history)\"".utf8) }
        if let purgeTime { json += Array(",\"_exp\":\"\(Timestamp.format(purgeTime))\"".utf8) }
        // Next come the body's own bytes, without its opening brace.
        guard let brace = body.firstIndex(of: UInt8(ascii: "{")) else { return json + [UInt8(ascii: "}")] }
        let rest = body[(brace + 1)...]
        let isEmpty = rest.first { $0 > 0x20 } == UInt8(ascii: "}")
        if !isEmpty { json.append(UInt8(ascii: ",")) }
        json += rest
        return json
    }

    /// `max_last`: how many documents ``last(_:)`` returns at once; they are held in memory.
    package static let maximumLast = 10_000

    // MARK: - One document

    /// Nil if there is no such document, or it is deleted.
    ///
    /// - Parameter withVersion: adds `_cv`, the version by which peers with version vectors know the revision, and `_vv`, the versions it includes.
    package func get(_ id: String, withVersion: Bool = false) async throws -> [UInt8]? {
        let id = try documentID(id)
        let (document, vector, purgeTime) = try await database.read { [collection] in
            (try $0.document(collection, id), withVersion ? try $0.currentVector(collection, id) : nil, try $0.purgeTime(collection, id))
        }
        guard let document, !document.isDeleted else { return nil }
        return Self.json(
            id: document.id, revision: document.revision, vector: vector, isDeleted: false, body: document.body, purgeTime: purgeTime)
    }

    /// The metadata that a JSON document states about itself, and the rest of it.
    struct Parts {
        var id: String?
        var revision: RevisionID?
        var isDeleted = false
        var body: [UInt8]
        /// `_exp`; nil if the document does not have it.
        var expiry: DocumentExpiry?
        /// The `_collection` of an import line.
        var collection: CollectionName?

        /// - Throws: ``AgentError`` if the document says that its id is another one.
        func check(_ saved: DocumentID) throws(AgentError) {
            guard let own = id, !own.utf8.elementsEqual(saved.text.utf8) else { return }
            throw AgentError(.invalid, "_id in the document is \"\(own)\", but it is saved as \"\(saved)\"")
        }
    }

    /// - Parameter isImported: the JSON is an import line, which may name its collection and have an `_exp` in the past.
    func parts(_ json: [UInt8], isImported: Bool = false) throws -> Parts {
        try Self.parts(json, isImported: isImported, now: database.environment.time.wallSeconds())
    }

    /// - Parameter now: the time of the clock on the wall, in seconds since 1970.
    static func parts(_ json: [UInt8], isImported: Bool, now: Int64) throws -> Parts {
        let scan: DocumentScan
        do throws(JSONError) { scan = try JSONScanner.scanDocument(json) } catch {
            // If the text does not even begin with an object, a position in it is no help.
            if error.kind == .rootNotObject { throw AgentError(.invalid, "this is not a JSON object, and a document is one: { … }") }
            throw AgentError(.invalid, "the document is not a JSON object: \(error)")
        }
        guard scan.hasReservedKeys else { return Parts(body: json) }
        guard case .object(var object) = try JSONValue(parsing: json) else { return Parts(body: json) }
        var parts = Parts(body: json)
        if let id = object["_id"] {
            guard let text = id.asString else { throw AgentError(.invalid, "_id must be a string") }
            parts.id = text
        }
        if object["_rev"]?.isNull == true { object["_rev"] = nil }
        if let revision = object["_rev"] {
            guard let text = revision.asString else { throw AgentError(.invalid, "_rev must be a string") }
            do { parts.revision = try RevisionID(known: text) } catch { throw AgentError(.invalid, "_rev: \(error)") }
        }
        if isImported, let name = object["_collection"] {
            guard let text = name.asString else { throw AgentError(.invalid, "_collection must be a string, NAME or SCOPE.NAME") }
            do { parts.collection = try CollectionName(parsing: text) } catch { throw AgentError(.invalid, "_collection: \(error)") }
            object["_collection"] = nil
        }
        if let problem = ReservedKeys.problem(in: object) { throw AgentError(.invalid, problem) }
        parts.isDeleted = object["_deleted"]?.asBool ?? false
        parts.expiry = object["_exp"].flatMap { DocumentExpiry($0) }
        // `_exp` from peers is handled as in Sync Gateway. A document that is saved here is meant to live for a while, but an import line may be old.
        if case .at(let time)? = parts.expiry, time < (isImported ? DocumentExpiry.earliestPlausible : now) {
            let given = object["_exp"]?.asString ?? "\(time)"
            let why = object["_exp"]?.asString == nil && time < DocumentExpiry.earliestPlausible ? ", as a number above \(DocumentExpiry.longestLength) (30 days) is a time" : ""
            throw AgentError(
                .invalid,
                "_exp: \(given) is a time in the year \(Timestamp.format(time).prefix(4)), which is past\(why); the document would be gone at once. "
                    + "Expected: \(DocumentExpiry.expected)")
        }
        for key in ["_id", "_rev", "_deleted", "_cv", "_vv", "_exp"] { object[key] = nil }
        if case .object(let attachments)? = object["_attachments"] {
            object["_attachments"] = .object(LegacyAttachments.complete(attachments, generation: (parts.revision?.generation ?? 0) + 1))
        }
        parts.body = JSONValue.object(object).serialize()
        // Removes from `_attachments`, as a peer's own API shows them, only what mirrors inline blobs.
        if case .object? = object["_attachments"], !object.members.contains(where: { $0.key.utf8.first == 0x5F && $0.key != "_attachments" }) {
            parts.body = try ReservedKeys.strip(from: parts.body)
        }
        return parts
    }

    /// Saves a document; its `_rev`, or `parent`, names the revision that it follows.
    package func put(
        _ id: String, _ json: [UInt8], parent: String? = nil, onConflict: SaveConflict = .resolve
    ) async throws -> SavedRevision {
        let id = try documentID(id)
        let parts = try parts(json)
        try parts.check(id)
        var revision = parts.revision
        if let parent {
            do { revision = try RevisionID(known: parent) } catch { throw AgentError(.invalid, "\(error)") }
        }
        if !parts.isDeleted, let missing = try await missingBlobs(of: parts.body, id).first {
            throw Self.lacks(missing, database.name)
        }
        if !parts.isDeleted, let wrong = try await wrongLength(in: parts.body) { throw AgentError(.invalid, wrong) }
        return try await save(id, parts.body, isDeleted: parts.isDeleted, parent: revision, expiry: parts.expiry, onConflict)
    }

    /// What is wrong with the lengths that a document gives for its blobs: peers would refuse it.
    func wrongLength(in body: [UInt8]) async throws -> String? { try await database.blobs.wrongLength((try? BlobReferences.find(in: body)) ?? []) }

    /// Blobs that a document would newly refer to and that are missing here, so that the document could not be pushed to anybody. Blobs that the
    /// stored document already refers to are not checked.
    func missingBlobs(of body: [UInt8], _ id: DocumentID) async throws -> [BlobDigest] {
        // Invalid JSON is refused when it is stored.
        let named = ((try? BlobReferences.find(in: body)) ?? []).map(\.digest)
        guard !named.isEmpty else { return [] }
        let missing = try await database.blobs.perform { blobs in named.filter { !blobs.contains($0) } }
        guard !missing.isEmpty else { return [] }
        let current = try await database.read { [collection] in try $0.document(collection, id) }
        let known = Set(((try? BlobReferences.find(in: current?.body ?? [])) ?? []).map(\.digest))
        return missing.filter { !known.contains($0) }
    }

    private func save(
        _ id: DocumentID, _ body: [UInt8], isDeleted: Bool, parent: RevisionID?, expiry: DocumentExpiry? = nil, _ onConflict: SaveConflict
    ) async throws -> SavedRevision {
        let decider = try self.decider(onConflict)
        if let refusal = try await validation?.refusals([.init(id: id, isDeleted: isDeleted, body: body)]).first, let refusal { throw refusal }
        do {
            // A tombstone has no expiry.
            let expiry = isDeleted ? .never : expiry
            if let decider {
                return try await decider.save(id: id, body: body, deleted: isDeleted, parent: parent, expiry: expiry)
            }
            return try await database.write { [collection] in
                let parent = onConflict == .overwrite ? try $0.document(collection, id)?.revision : parent
                let saved = try $0.save(collection, id: id, body: body, deleted: isDeleted, parent: parent)
                if let expiry { try $0.setExpiry(collection, id, expiry) }
                return saved
            }
        } catch let failure as PolicyFailure {
            throw AgentError(.conflict, Self.undecided(id, failure))
        } catch StoreError.conflict(_, let current) {
            throw AgentError(
                .conflict,
                "document \"\(id)\" \(current.map { "is at revision \($0)" } ?? "does not exist"); "
                    + (parent == nil ? "name it as _rev to replace it" : "the change was based on \(parent.map(\.text) ?? "")"))
        } catch StoreError.blobMissing(let digest) {
            throw AgentError(.invalid, "document \"\(id)\" names the blob \(digest), and the database \(database.name) has no such blob; nothing was saved")
        } catch let error as StoreError {
            throw AgentError(error.kind, "\(error)")
        }
    }

    static func undecided(_ id: DocumentID, _ failure: PolicyFailure) -> String {
        "document \"\(id)\" has changed since the revision given, and the resolver \"\(failure.plugin)\" that decides then has failed: "
            + "\(failure.kind): \(failure.message); nothing was saved"
    }

    /// Deletes a document: the current revision, or the given one if it is current.
    package func remove(_ id: String, revision: String? = nil, onConflict: SaveConflict = .resolve) async throws -> SavedRevision {
        let id = try documentID(id)
        let current = try await database.read { [collection] in try $0.document(collection, id) }
        guard let current, !current.isDeleted else { throw AgentError(.notFound, "there is no document \"\(id)\"") }
        var parent = current.revision
        if let revision {
            do { parent = try RevisionID(known: revision) } catch { throw AgentError(.invalid, "\(error)") }
        }
        return try await save(id, Array("{}".utf8), isDeleted: true, parent: parent, onConflict)
    }

    func documentID(_ text: String) throws(AgentError) -> DocumentID { try Self.documentID(text) }

    static func documentID(_ text: String) throws(AgentError) -> DocumentID {
        do { return try DocumentID(text) } catch { throw AgentError(.invalid, "\(error)") }
    }

    // MARK: - All documents

    /// Current revisions in the order of their last change, in pages.
    ///
    /// - Parameter since: the sequence of the last row of the previous page; 0 for the first page.
    package func page(since: SequenceNumber, limit: Int, includesDeleted: Bool, includesBodies: Bool) async throws -> [ChangeRow] {
        try await database.read { [collection] in
            try $0.changes(
                collection, since: since, limit: limit, includeBodies: includesBodies, includeDeleted: includesDeleted)
        }
    }

    /// The most recently changed documents, oldest change first, including tombstones.
    package func last(_ count: Int, includesBodies: Bool = true) async throws -> [ChangeRow] {
        let newest = try await database.read { [collection] in try $0.lastSequence(collection) }
        var window = SequenceNumber(max(1, count))
        while true {
            // The sequences of replaced revisions are gone, so a range of sequences may contain few documents.
            var since = newest > window ? newest - window : 0
            let isWhole = since == 0
            var rows: [ChangeRow] = []
            while true {
                let page = try await page(since: since, limit: 500, includesDeleted: true, includesBodies: includesBodies)
                guard let last = page.last else { break }
                since = last.sequence
                rows = Array((rows + page).suffix(count))
            }
            if rows.count >= count || isWhole { return rows }
            window *= 4
        }
    }

    /// Documents that the sync function could not put into channels, ordered by id: objects with `id`, `rev`, `plugin`, `version` and `error`. All of
    /// them, in pages.
    package func forEachUnrouted(_ body: ([JSONValue]) async throws -> Void) async throws {
        var after: DocumentID?
        while true {
            let start = after
            let (rows, last) = try await database.read { [collection] transaction in
                let page = try transaction.unassigned(collection, after: start, limit: 1_000)
                let rows = try page.map { id, route in
                    JSONOutput.object([
                        "id": .string(id.text), "rev": JSONOutput.text(try transaction.routedRevision(collection, id)?.text),
                        "plugin": .string(route.plugin), "version": .string(route.version), "error": .string(route.error),
                    ])
                }
                return (rows, page.last?.0)
            }
            guard let last else { return }
            after = last
            try await body(rows)
        }
    }
}

extension StoreError {
    /// The corresponding kind of ``AgentError``.
    var kind: AgentError.Kind {
        switch self {
        case .conflict, .conflictMoved, .checkpointConflict: .conflict
        case .notFound, .unknownCollection, .blobMissing: .notFound
        case .bodyTooLarge, .localBodyTooLarge, .blobTooLarge: .tooLarge
        case .bodyInvalid, .reservedKey, .historyInvalid, .tooManyBranches, .localIDInvalid, .blobDigestMismatch: .invalid
        case .diskFull: .outOfSpace
        case .tooManyOpenBlobs: .notNow
        default: .failed
        }
    }
}
