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
        try check(parts, id, options)
        if let missing = blobs(of: parts).first { throw lacks(missing, database) }
    }

    /// A body that is too large, in the words of the database.
    private static func check(_ parts: Parts, _ id: DocumentID, _ options: DatabaseOptions) throws(AgentError) {
        guard parts.body.count > options.maxBodyBytes else { return }
        let error = StoreError.bodyTooLarge(id: id, bytes: parts.body.count, limit: options.maxBodyBytes)
        throw AgentError(error.kind, "\(error)")
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
                try check(parts, id, options)
                guard !withoutBlobs, let missing = blobs(of: parts).first else { return true }
                throw AgentError(.invalid, lacks(missing, id, database))
            } catch {
                counts.fail(error)
            }
        }
        return false
    }
}
