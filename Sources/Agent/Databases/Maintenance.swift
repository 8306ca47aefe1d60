import DocumentStore

extension Agent {
    /// `compaction_interval`: hours between compactions, the same as in Sync Gateway.
    private static let compactionHours = 24

    /// Frees unreferenced data once a day, since nobody does that by hand on a gateway.
    func maintain() async {
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: Self.compactionHours * 3600)
            guard !Task.isCancelled else { return }
            for database in databases {
                do {
                    let report = try await database.compact()
                    log.info(
                        "database compacted",
                        metadata: [
                            "database": "\(database.name)", "blobs_removed": .stringConvertible(report.blobsRemoved),
                            "bytes_freed": .stringConvertible(report.fileBytesFreed),
                        ])
                } catch { log.error("compaction of database \(database.name): \(error)") }
            }
        }
    }
}
