import Documents
import DocumentStore
import Encodings

/// What can be said of documents for a database or a collection that does not exist yet, so that none is created for something that it would refuse.
extension DocumentAccess {
    /// What does not exist yet.
    package enum Absent: Sendable, Equatable {
        case database(String)
        /// Of a database that exists, and may have blobs.
        case collection(CollectionName, database: String)

        package var words: String {
            switch self {
            case .database(let name): "the database \"\(name)\""
            case .collection(let name, let database): "the collection \(name) of the database \"\(database)\""
            }
        }

        package var databaseName: String {
            switch self {
            case .database(let name), .collection(_, database: let name): name
            }
        }

        fileprivate var kind: String { if case .database = self { "database" } else { "collection" } }

        /// Nil if the blobs in it are unknown here.
        fileprivate var databaseWithoutBlobs: String? { if case .database(let name) = self { name } else { nil } }
    }

    /// Why a plugin refuses a document that is to be the first; nil if it does not. The collection is the one that the document names; nil if it names none.
    package typealias FirstJudge = @Sendable (LocalValidation.Write, CollectionName?) async -> AgentError?

    /// Checks the document that is to be the first of its database or collection.
    ///
    /// - Parameters:
    ///   - now: the time of the clock on the wall, in seconds since 1970.
    ///   - judge: nil if there is no `validate` plugin.
    /// - Throws: what ``put(_:_:parent:onConflict:)`` would say.
    package static func checkFirst(
        _ id: String, _ json: [UInt8], onConflict: SaveConflict, of absent: Absent, _ options: DatabaseOptions, now: Int64, _ judge: FirstJudge? = nil
    ) async throws {
        let id = try documentID(id)
        let parts = try parts(json, isImported: false, now: now)
        try parts.check(id)
        if let revision = parts.revision, onConflict != .overwrite {
            throw AgentError(
                .conflict,
                "document \"\(id)\" does not exist, and neither does \(absent.words); the change was based on \(revision.text). "
                    + "Correct the \(absent.kind)'s name, or leave _rev out to save a new document")
        }
        try check(parts, id, options, isPeers: false)
        if let database = absent.databaseWithoutBlobs, let missing = blobs(of: parts).first { throw lacks(missing, database) }
        if let refusal = await judge?(.init(id: id, isDeleted: parts.isDeleted, body: parts.body), nil) { throw refusal }
    }

    /// A body that no database takes, in the words of the database.
    ///
    /// - Parameter isPeers: whether it is stored under the revision that it names, as what comes from a peer.
    private static func check(_ parts: Parts, _ id: DocumentID, _ options: DatabaseOptions, isPeers: Bool) throws(AgentError) {
        guard let error = refusal(of: parts.body, id, options, isPeers: isPeers) else { return }
        throw AgentError(error.kind, "\(error)")
    }

    private static func refusal(of body: [UInt8], _ id: DocumentID, _ options: DatabaseOptions, isPeers: Bool) -> StoreError? {
        if body.count > options.maxBodyBytes { return .bodyTooLarge(id: id, bytes: body.count, limit: options.maxBodyBytes) }
        let keys = (try? ReservedKeys.all(in: body)) ?? []
        if let key = keys.first(where: { $0 != "_attachments" }) { return .reservedKey(id: id, key: key) }
        guard !keys.isEmpty, !isPeers, let root = try? JSONValue(stored: body).asObject, let problem = ReservedKeys.attachmentsProblem(in: root) else { return nil }
        return .bodyInvalid(id: id, detail: problem)
    }

    private static func blobs(of parts: Parts) -> [BlobDigest] {
        parts.isDeleted ? [] : ((try? BlobReferences.find(in: parts.body)) ?? []).map(\.digest)
    }

    static func lacks(_ blob: BlobDigest, _ database: String) -> AgentError {
        AgentError(.invalid, "the blob \(blob) that the document names is not here; store its bytes first (nightjar blob put \(database) FILE)")
    }

    static func lacks(_ blob: BlobDigest, _ id: DocumentID, _ database: String) -> String {
        "document \"\(id)\" names the blob \(blob), and the database \(database) has no such blob; import with --blobs FOLDER, where "
            + "nightjar export --blobs or a backup has written it as FOLDER/\(blob.hex), or store its bytes first (nightjar blob put \(database) FILE)"
    }

    /// Looks through the lines of an import into a database or a collection that does not exist yet, until one of them can be stored.
    ///
    /// - Parameters:
    ///   - withoutBlobs: whether documents are stored whose blobs are missing.
    ///   - judge: nil if there is no `validate` plugin.
    ///   - counts: the lines that would fail.
    /// - Returns: whether one can be stored.
    package static func holdDocument(
        _ lines: [ImportedLine], withoutBlobs: Bool, of absent: Absent, _ options: DatabaseOptions, now: Int64, _ judge: FirstJudge?,
        _ counts: inout ImportCounts
    ) async -> Bool {
        for line in lines {
            counts.lines += 1
            do {
                guard let text = try Self.text(of: line, number: counts.lines) else { continue }
                let parts = try parts(text, isImported: true, now: now)
                counts.hasObject = true
                let id = try Self.id(of: parts, text, counts)
                try check(parts, id, options, isPeers: parts.revision != nil)
                if !withoutBlobs, let database = absent.databaseWithoutBlobs, let missing = blobs(of: parts).first {
                    throw AgentError(.invalid, lacks(missing, id, database))
                }
                if let refusal = await judge?(.init(id: id, isDeleted: parts.isDeleted, body: parts.body), parts.collection) { throw refusal }
                return true
            } catch {
                counts.fail(error, of: line)
            }
        }
        return false
    }
}
