import Documents
import DocumentStore
import Encodings

/// What needs attention in databases and on disks.
extension Agent {
    nonisolated func attention(of database: Database) async -> [Attention] {
        let subject = "database \(database.name)"
        let fileRemedy = "look at the disk (dmesg, smartctl); nightjar export saves what can be read and names the rest, which comes back from a backup "
            + "(nightjar restore), with the agent stopped"
        var list: [Attention] = []
        do { _ = try await database.read { try $0.lastSequence(database.collections[0]) } } catch {
            list.append(Attention(.databaseUnreadable, subject, "\(error)", remedy: fileRemedy))
        }
        list += fullness(of: database)
        if let problem = database.fileProblem() {
            list.append(Attention(.databaseUnreadable, subject, "\(problem)", remedy: fileRemedy))
        } else if let problem = database.blobFolderProblem() {
            list.append(
                Attention(
                    .databaseUnreadable, "\(subject), blobs", "attachments can be neither read nor stored: \(problem)",
                    remedy: "put the folder back (is its disk mounted?); if it is lost, stop the agent and restore a backup (nightjar restore), or restart the "
                        + "agent: it continues with an empty folder, and nightjar doctor names the blobs that are missing"))
        }
        let hasRoom = DiskSpace(of: database.folder).map { !$0.isFull } ?? true
        if let failing = await database.writesFailing(hasRoom: hasRoom) {
            list.append(
                Attention(
                    .writesFailing, subject, since: failing.since, "writes fail: \(failing.error)",
                    remedy: "make room on the disk of \(database.folder), or check that disk; writes then resume by themselves"))
        }
        for damaged in database.damagedDocuments {
            list.append(
                Attention(
                    .documentsDamaged, "\(subject), collection \(damaged.collection)", "the stored data of document \(damaged.id) is damaged (\(damaged.detail))",
                    remedy: "save it again on top of its current revision, delete it, or purge it"))
        }
        for blob in (try? await database.lostBlobs()) ?? [] {
            list.append(Attention(.documentsDamaged, "\(subject), blob \(blob.digest)", blob.text, remedy: BlobMend.text(database: database.name)))
        }
        if database.hasMoreProblems {
            list.append(
                Attention(
                    .documentsDamaged, subject,
                    "more documents or blobs are damaged than the \(StoreLimits.damagedDocuments) of each that are named",
                    remedy: "fix those, restart the agent, and check again"))
        }
        list += clocks(of: database)
        let statistics = (try? await database.statistics()) ?? []
        let unrouted = statistics.reduce(0) { $0 + $1.unrouted }
        if unrouted > 0 {
            let places = statistics.filter { $0.unrouted > 0 }.map { $0.name == .default ? database.name : "\(database.name).\($0.name)" }
            list.append(
                Attention(
                    .documentsUnrouted, subject, "\(Plural.count(unrouted, "document")) in no channel because sync failed or rejected them: no user gets them",
                    remedy: "\(places.map { "nightjar doc unrouted \($0)" }.joined(separator: ", ")) says which and why: if sync failed, fix the plugin; if it "
                        + "rejected documents, change or remove them (nightjar doc rm)"))
        }
        list += await channelAttention(of: database)
        list += largeDocuments(of: database)
        let conflicts = statistics.reduce(0) { $0 + $1.conflictsPending }
        if conflicts > 0, decidesConflicts(in: database) {
            list.append(
                Attention(
                    .conflictsPending, subject, since: statistics.compactMap(\.conflictsPendingSince).min(), "\(Plural.count(conflicts, "conflict")) not decided yet",
                    remedy: "nightjar conflicts list --pending says why; they are decided by themselves, those on which a resolver failed once it is fixed"))
        }
        return list
    }

    private nonisolated func largeDocuments(of database: Database) -> [Attention] {
        let (entries, large) = (database.largeDocuments.entries, database.largeDocuments)
        guard let largest = entries.first else { return [] }
        let count = large.hasMore ? "\(entries.count) or more documents" : Plural.count(entries.count, "document")
        return [
            Attention(
                .documentsLarge, "database \(database.name)", since: entries.map(\.since).min(),
                "\(count) stored since the start with more than warn_document_bytes (\(large.limit)), the largest is document \(largest.id) of \(largest.collection) with \(largest.bytes) bytes",
                remedy: "store what is large as a blob (nightjar blob put), have the document split, or raise warn_document_bytes of the database and nightjar reload")
        ]
    }

    /// For the data folder, and for databases on other mounts.
    nonisolated func diskAttention() -> [Attention] {
        var told: Set<UInt64> = []
        return ([settings.data.value] + databases.map(\.folder)).compactMap { folder in
            guard let space = DiskSpace(of: folder), told.insert(space.fileSystem).inserted, space.isScarce
            else { return nil }
            return Self.diskAttention(folder, space)
        }
    }

    static func diskAttention(_ folder: String, _ space: DiskSpace) -> Attention {
        Attention(
            .diskNearlyFull, "disk of \(folder)", "\(space.free >> 20) MiB of \(space.total >> 20) MiB free",
            remedy: space.isFull ? "make room: it is full, and writes fail" : "make room: once it is full, writes fail")
    }
}
