import Documents

/// A blob whose bytes are not to be had here: until they are stored again, no peer that lacks them gets the documents that name it.
public struct LostBlob: Sendable {
    public struct Name: Sendable {
        public var collection: CollectionName
        public var id: DocumentID
    }

    public var digest: BlobDigest
    /// Of its file.
    public var path: String
    /// Its file is gone; else its bytes are not those of the digest.
    public var isMissing: Bool
    /// The documents that name it, as many as are told.
    public var names: [Name]
    /// There are more of them.
    public var hasMoreNames: Bool
}

/// Of the blobs that a document names those that cannot be given, as far as that is known: a peer that has them already can take the document all the
/// same. A blob that was altered and that nobody has read since counts as sound.
public struct LostBlobs: Sendable {
    /// They are not here.
    public var missing: [BlobDigest] = []
    /// Their bytes were found to be others.
    public var altered: [BlobDigest] = []

    public init() {}

    public var isEmpty: Bool { missing.isEmpty && altered.isEmpty }
    public var all: [BlobDigest] { missing + altered }
}

extension Database {
    /// Blobs that were found to be altered, or gone, since the start, and not to be right since; at most `StoreLimits.damagedDocuments`.
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

    /// Tells of each blob that was altered or gone, as far as that was met, and is right again. On a worker, or where somebody asks for
    /// ``lostBlobs()``; the handler must not block.
    package func observeMendedBlobs(_ handler: @escaping @Sendable (BlobDigest) -> Void) -> ChangeObservation { problems.mends.observe(handler) }

    /// Of the blobs that somebody looked for in vain, those count that a live document names and that are not here still.
    private func lookForMissingBlobs() async throws {
        let missed = problems.missedBlobs
        // Of a folder that is gone it is told as such.
        guard !missed.isEmpty, blobFolderProblem() == nil else { return }
        let needed = try await read { transaction in try missed.filter { try transaction.isNeeded($0) } }
        let lost = try await blobs.perform { blobs in needed.filter { blobs.size($0) == nil }.map { (digest: $0, path: blobs.path($0)) } }
        problems.settle(missed: missed, lost: lost)
    }

    /// Of the blobs that a body names those that are not here, or known to be altered. The first are looked for again when ``lostBlobs()`` is asked.
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
    /// The first documents of which a stored body refers to the blob.
    final func documents(naming digest: BlobDigest, limit: Int) throws(StoreError) -> [LostBlob.Name] {
        var names: [LostBlob.Name] = []
        for collection in try collections() {
            let found = try documents(collection, naming: digest, limit: limit - names.count)
            names += found.map { LostBlob.Name(collection: collection.name, id: $0) }
            if names.count >= limit { break }
        }
        return names
    }

    /// Whether a document that is not deleted refers to the blob. Of very many the first are looked at.
    fileprivate func isNeeded(_ digest: BlobDigest) throws(StoreError) -> Bool {
        for collection in try collections() {
            for id in try documents(collection, naming: digest, limit: StoreLimits.namedDocuments) {
                let found: Row? = try row(collection, id)
                if found?.isDeleted == false { return true }
            }
        }
        return false
    }

    /// The first documents of one collection of which a stored body refers to the blob.
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
