import Documents
import DocumentStore
import Encodings

/// What can be said of documents for a database that does not exist yet, so that none is created for something that it would refuse.
extension DocumentAccess {
    /// Checks the document that is to be the first of its database.
    ///
    /// - Parameters:
    ///   - database: the name of the database.
    ///   - now: the time of the clock on the wall, in seconds since 1970.
    /// - Throws: what ``put(_:_:parent:onConflict:)`` would say.
    package static func checkFirst(
        _ id: String, _ json: [UInt8], onConflict: SaveConflict, database: String, _ options: DatabaseOptions, now: Int64
    ) throws {
        let id = try documentID(id)
        let parts = try parts(json, isImported: false, now: now)
        try parts.check(id)
        if let revision = parts.revision, onConflict != .overwrite {
            throw AgentError(
                .conflict,
                "document \"\(id)\" does not exist, and neither does the database \"\(database)\"; the change was based on \(revision.text). "
                    + "Correct the database's name, or leave _rev out to save a new document")
        }
        try check(parts, id, options, isPeers: false)
        if let missing = blobs(of: parts).first { throw lacks(missing, database) }
    }

    /// A body that no database takes, in the words of the database. Not what a `validate` plugin would say: it is asked by a database.
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

    /// Looks through the lines of an import into a database that does not exist yet, until one of them can be stored.
    ///
    /// - Parameters:
    ///   - withoutBlobs: whether documents are stored whose blobs are missing.
    ///   - counts: the lines that would fail.
    /// - Returns: whether one can be stored.
    package static func holdDocument(
        _ lines: [ImportedLine], withoutBlobs: Bool, database: String, _ options: DatabaseOptions, now: Int64, _ counts: inout ImportCounts
    ) -> Bool {
        for line in lines {
            counts.lines += 1
            do {
                guard let text = try Self.text(of: line, number: counts.lines) else { continue }
                let parts = try parts(text, isImported: true, now: now)
                let id = try Self.id(of: parts, text, counts)
                try check(parts, id, options, isPeers: parts.revision != nil)
                guard !withoutBlobs, let missing = blobs(of: parts).first else { return true }
                throw AgentError(.invalid, lacks(missing, id, database))
            } catch {
                counts.fail(error)
            }
        }
        return false
    }
}
