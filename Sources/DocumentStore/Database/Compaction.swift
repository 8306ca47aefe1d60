import Documents

/// Gives back the room that nothing needs any more.
enum Compaction {
    static func run(_ database: Database) async throws -> CompactionReport {
        var report = CompactionReport()
        let before = database.sizeBytes()
        let blobs = database.blobs
        let (candidates, young) = try await blobs.perform { try $0.byAge() }
        for start in stride(from: 0, to: candidates.count, by: 200) {
            let some = candidates[start..<min(start + 200, candidates.count)]
            // On the writer: no revision can begin to refer to a blob in the meantime.
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
        try await database.giveBackFreePages()
        report.fileBytesFreed = max(0, before - database.sizeBytes())
        return report
    }
}

extension Database {
    /// Gives the pages that nothing uses back to the file system. In small steps, so that writes go on in between.
    public func giveBackFreePages() async throws {
        while try await write({ transaction in try transaction.vacuumStep() }) {}
        // The step before ended with a short log; this waits for that.
        try await write { _ in }
    }
}

extension WriteTransaction {
    /// Bodies whose document does not claim any. There should be none.
    func dropLeftoverBodies(_ collection: Collection) throws(StoreError) -> Int {
        let n = collection.id
        try active().execute("""
            DELETE FROM bodies_\(n) WHERE NOT EXISTS \
            (SELECT 1 FROM documents_\(n) d WHERE d.id = bodies_\(n).id AND d.flags & \(DocumentFlags.bodies) != 0)
            """)
        return session.connection.changes
    }

    /// Gives some free pages back. False when there are none left.
    func vacuumStep() throws(StoreError) -> Bool {
        try active().execute("PRAGMA incremental_vacuum(2000)")
        let free: Int64?
        do { free = try session.connection.integer("PRAGMA freelist_count") } catch { throw session.note(error) }
        guard let free, free > 0 else {
            state.wantsShortLog = true
            return false
        }
        return true
    }
}
