import Documents

/// Releases space that is no longer needed.
enum Compaction {
    static func run(_ database: Database) async throws -> CompactionReport {
        var report = CompactionReport()
        let before = database.sizeBytes()
        // First what frees space: the rest writes to the log.
        try await database.releaseFreePages()
        let blobs = database.blobs
        let (candidates, young) = try await blobs.perform { try $0.byAge() }
        for start in stride(from: 0, to: candidates.count, by: 200) {
            let some = candidates[start..<min(start + 200, candidates.count)]
            // On the writer, so that no revision can begin to refer to a blob in between.
            let freed = try await database.write { transaction in
                try some.map { digest in
                    try transaction.isBlobReferenced(digest) ? nil : blobs.removeIfStillOld(digest)
                }
            }
            for bytes in freed.compactMap({ $0 }) {
                report.blobsRemoved += 1
                report.blobBytesFreed += bytes
            }
        }
        for start in stride(from: 0, to: young.count, by: 200) {
            let some = young[start..<min(start + 200, young.count)]
            let waiting = try await database.read { transaction in try some.filter { try !transaction.isBlobReferenced($0.digest) } }
            for each in waiting {
                report.blobsWaiting += 1
                report.blobBytesWaiting += blobs.size(each.digest) ?? 0
                report.blobsWaitUntil = max(report.blobsWaitUntil ?? 0, each.until)
            }
        }
        for collection in database.collections {
            report.bodiesRemoved += try await database.write { transaction in try transaction.dropLeftoverBodies(collection) }
        }
        while try await database.write({ transaction in try transaction.dropOldDeltaBases() }) {}
        try await database.releaseFreePages()
        report.fileBytesFreed = max(0, before - database.sizeBytes())
        return report
    }
}

extension Database {
    /// Returns unused pages to the file system. In small steps, so that writes can proceed in between.
    ///
    /// A step writes to the log before the file gets shorter. If space is short, the steps are small, and the log is checkpointed and truncated after
    /// each: a few hundred KiB are enough, and each step makes room for the next.
    public func releaseFreePages() async throws {
        try await write { $0.shortenLog() }
        var most = StoreLimits.vacuumPages
        while true {
            let pages = min(most, blobs.usage.logPages)
            do {
                guard try await write({ transaction in try transaction.vacuumStep(pages: pages) }) else { break }
                most = min(most * 2, StoreLimits.vacuumPages)
            } catch let error as StoreError where error.isOutOfSpace && pages > 1 {
                most = max(1, pages / 4)
                try await write { $0.shortenLog() }
            }
        }
        // The previous step requested truncation of the log; these wait for it.
        try await write { _ in }
        if let failure = try await write({ $0.logFailure }), failure.isOutOfSpace { throw failure }
    }
}

extension WriteTransaction {
    /// Removes bodies without a document. There should be none.
    func dropLeftoverBodies(_ collection: Collection) throws(StoreError) -> Int {
        let n = collection.id
        try active().execute("""
            DELETE FROM bodies_\(n) WHERE NOT EXISTS \
            (SELECT 1 FROM documents_\(n) d WHERE d.id = bodies_\(n).id AND d.flags & \(DocumentFlags.bodies) != 0)
            """)
        return session.connection.changes
    }

    /// After this transaction, the log is moved into the database and its file truncated, as soon as no reader needs it.
    func shortenLog() { state.wantsShortLog = true }

    /// Why the log could not be moved into the database after the last commit.
    var logFailure: StoreError? { state.logFailure }

    /// Releases some free pages. Returns false if none are left.
    func vacuumStep(pages: Int32) throws(StoreError) -> Bool {
        guard try freePages() > 0 else {
            shortenLog()
            return false
        }
        try active().execute("PRAGMA incremental_vacuum(\(pages))")
        let isLast = try freePages() <= 0
        state.rows += 1
        // The file gets shorter when the log is checkpointed.
        if isLast || pages < StoreLimits.vacuumPages { shortenLog() }
        return !isLast
    }

    private func freePages() throws(StoreError) -> Int64 {
        do { return try session.connection.integer("PRAGMA freelist_count") ?? 0 } catch { throw session.note(error) }
    }
}
