import Documents

/// A blob whose bytes are not those of its digest: no peer gets the documents that name it until the right ones are stored again.
public struct AlteredBlob: Sendable {
    public struct Name: Sendable {
        public var collection: CollectionName
        public var id: DocumentID
    }

    public var digest: BlobDigest
    /// Of its file.
    public var path: String
    /// The documents that name it, as many as are told.
    public var names: [Name]
    /// There are more of them.
    public var hasMoreNames: Bool
}

/// Blobs that a document names, and that no peer can get.
public struct LostBlobs: Sendable {
    /// They are not here.
    public var missing: [BlobDigest] = []
    /// Their bytes are others.
    public var altered: [BlobDigest] = []

    public init() {}

    public var isEmpty: Bool { missing.isEmpty && altered.isEmpty }
    public var all: [BlobDigest] { missing + altered }
}

extension Database {
    /// Blobs that were found to be altered since the start, and not to be right since; at most `StoreLimits.damagedDocuments`.
    public func alteredBlobs() async throws -> [AlteredBlob] {
        let met = problems.blobs
        if met.isEmpty { return [] }
        return try await read { transaction in
            try met.map { digest, path in
                var names = try transaction.documents(naming: digest, limit: StoreLimits.namedDocuments + 1)
                let hasMore = names.count > StoreLimits.namedDocuments
                if hasMore { names.removeLast() }
                return AlteredBlob(digest: digest, path: path, names: names, hasMoreNames: hasMore)
            }
        }
    }

    /// Of the blobs that a body names those that are not here, or known to be altered.
    public func lostBlobs(of body: [UInt8]) async throws -> LostBlobs {
        let named = ((try? BlobReferences.find(in: body)) ?? []).map(\.digest)
        if named.isEmpty { return LostBlobs() }
        let altered = Set(problems.blobs.map { $0.digest })
        return try await blobs.perform { blobs in
            var lost = LostBlobs()
            for digest in named {
                if !blobs.contains(digest) { lost.missing.append(digest) } else if altered.contains(digest) { lost.altered.append(digest) }
            }
            return lost
        }
    }
}

extension ReadTransaction {
    /// The first documents of which a stored body refers to the blob.
    final func documents(naming digest: BlobDigest, limit: Int) throws(StoreError) -> [AlteredBlob.Name] {
        var names: [AlteredBlob.Name] = []
        for collection in try collections() {
            let ids = try documents(collection, naming: digest, limit: limit - names.count)
            names += ids.map { AlteredBlob.Name(collection: collection.name, id: $0) }
            if names.count >= limit { break }
        }
        return names
    }

    /// The same of one collection.
    package final func documents(_ collection: Collection, naming digest: BlobDigest, limit: Int) throws(StoreError) -> [DocumentID] {
        let statement = try tables(collection).statement(.blobNamedBy)
        statement.bind(1, digest.bytes)
        statement.bind(2, Int64(limit))
        defer { statement.reset() }
        var ids: [DocumentID] = []
        while try session.step(statement) { ids.append(DocumentID(stored: statement.text(0))) }
        return ids
    }
}
