import DocumentStore

/// Checks the disks of databases, and frees space where there is none.
extension Agent {
    /// Checks all disks periodically, until the task is cancelled.
    nonisolated func watchDisks() async {
        while !Task.isCancelled {
            await checkDisks()
            await makeRoom()
            try? await environment.time.sleep(seconds: disks.interval)
        }
    }

    nonisolated func checkDisks() async {
        disks.apply(settings.disk)
        for database in databases {
            if let place = disks.place(database.name) { disks.look(place) }
        }
    }

    /// Automatically returns deleted space to the disk and removes unneeded blobs and delta bases.
    private nonisolated func makeRoom() async {
        for database in databases {
            do {
                if try await !disks.relieve(database) {
                    guard disks.lacksFreePages(database.name) else { continue }
                    try await database.releaseFreePages()
                }
            } catch { log.warning("database \(database.name) has no room and could not be compacted: \(error)") }
            if let place = disks.place(database.name) { disks.look(place) }
        }
    }

    nonisolated func fullness(of database: Database) -> [Attention] {
        guard let state = disks.state(database.name) else { return [] }
        let subject = "database \(database.name)"
        if state.isQuota {
            return [Attention(.quotaReached, subject, since: state.since, state.fact, remedy: "\(state.remedy) in the configuration and nightjar reload")]
        }
        let remedy = "remove what is not the agent's from that disk, or \(RoomRemedy.purge) and nightjar compact \(database.name); this ends by itself once "
            + "there is room"
        return [Attention(state.level == .readOnly ? .databaseReadOnly : .writesRefused, subject, since: state.since, state.fact, remedy: remedy)]
    }
}
