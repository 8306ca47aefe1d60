import Documents

/// A blob whose bytes cannot be obtained here: until they are stored again, peers that lack them do not get the documents that name it.
public struct LostBlob: Sendable {
    public struct Name: Sendable {
        public var collection: CollectionName
        public var id: DocumentID
    }

    public var digest: BlobDigest
    /// Path of its file.
    public var path: String
    /// Whether its file is missing; otherwise its bytes do not match the digest.
    public var isMissing: Bool
    /// Some of the documents that name it.
    public var names: [Name]
    /// Whether there are more of them.
    public var hasMoreNames: Bool
}

/// The blobs of a document that cannot be sent, as far as is known: a peer that already has them can take the document nevertheless. An altered blob
/// that nobody has read since counts as intact.
public struct LostBlobs: Sendable {
    /// Blobs that are not here.
    public var missing: [BlobDigest] = []
    /// Blobs whose bytes were found to be altered.
    public var altered: [BlobDigest] = []

    public init() {}

    public var isEmpty: Bool { missing.isEmpty && altered.isEmpty }
    public var all: [BlobDigest] { missing + altered }
}

extension Database {
    /// Blobs found to be altered or missing since the start, and not found intact since; at most `StoreLimits.damagedDocuments`.
    public func lostBlobs() async throws -> [LostBlob] {
        try await lookForMissingBlobs()
        let met = problems.blobs
        if met.isEmpty { return [] }
        return try await read { transaction in
            try met.map { digest, fault in
                var names = try transaction.documents(naming: digest, limit: StoreLimits.namedDocuments + 1)
                let hasMore = names.count > StoreLimits.namedDocuments
                if hasMore { names.removeLast() }
                return LostBlob(digest: digest, path: fault.path, isMissing: fault.isMissing, names: names, hasMoreNames: hasMore)
            }
        }
    }

    /// Reports each blob that was found altered or missing and is intact again. The handler is called on a worker, or on the thread that asks for
    /// ``lostBlobs()``; it must not block.
    package func observeMendedBlobs(_ handler: @escaping @Sendable (BlobDigest) -> Void) -> ChangeObservation { problems.mends.observe(handler) }

    /// Of the blobs that were looked up in vain, those count that a live document names and that are still not here.
    private func lookForMissingBlobs() async throws {
        let missed = problems.missedBlobs
        // A missing folder is reported separately.
        guard !missed.isEmpty, blobFolderProblem() == nil else { return }
        let needed = try await read { transaction in try missed.filter { try transaction.isNeeded($0) } }
        let lost = try await blobs.perform { blobs in needed.filter { blobs.size($0) == nil }.map { (digest: $0, path: blobs.path($0)) } }
        problems.settle(missed: missed, lost: lost)
    }

    /// Of the blobs that a body names, those that are missing, or known to be altered. The missing ones are looked up again when ``lostBlobs()`` is
    /// called.
    public func lostBlobs(of body: [UInt8]) async throws -> LostBlobs {
        let named = ((try? BlobReferences.find(in: body)) ?? []).map(\.digest)
        if named.isEmpty { return LostBlobs() }
        let altered = Set(problems.blobs.filter { !$0.fault.isMissing }.map(\.digest))
        return try await blobs.perform { blobs in
            var lost = LostBlobs()
            for digest in named {
                if !blobs.contains(digest) { lost.missing.append(digest) } else if altered.contains(digest) { lost.altered.append(digest) }
            }
            for digest in lost.missing { blobs.noteMissed(digest) }
            return lost
        }
    }
}

extension ReadTransaction {
    /// The first documents with a stored body that refers to the blob.
    final func documents(naming digest: BlobDigest, limit: Int) throws(StoreError) -> [LostBlob.Name] {
        var names: [LostBlob.Name] = []
        for collection in try collections() {
            let found = try documents(collection, naming: digest, limit: limit - names.count)
            names += found.map { LostBlob.Name(collection: collection.name, id: $0) }
            if names.count >= limit { break }
        }
        return names
    }

    /// Whether a document that is not deleted refers to the blob. If there are very many, only the first are examined.
    fileprivate func isNeeded(_ digest: BlobDigest) throws(StoreError) -> Bool {
        for collection in try collections() {
            for id in try documents(collection, naming: digest, limit: StoreLimits.namedDocuments) {
                let found: Row? = try row(collection, id)
                if found?.isDeleted == false { return true }
            }
        }
        return false
    }

    /// The first documents of one collection with a stored body that refers to the blob.
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
