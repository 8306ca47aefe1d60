import AgentConfiguration
import DocumentStore
import Environment
import Glibc
import Logging
import Synchronization

/// Keeps databases from filling their disk or their quota: from some fullness on writes made here are refused, then what peers bring too.
/// It ends by itself: whoever is refused has the disk looked at again, at once.
final class DiskGuard: Sendable {
    /// How much is taken.
    enum Level: Int, Comparable, Sendable {
        case open, noWrites, readOnly

        static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    /// What holds now.
    struct State: Sendable {
        var level: Level
        /// For who is refused, and for status.
        var reason: String
        var isQuota: Bool
        /// Seconds since 1970.
        var since: Int64
    }

    /// `disk_hysteresis`: percent below a mark at which it is over, so that it does not come and go with each write.
    private static let hysteresis: UInt64 = 1

    private let settings = Mutex(DiskSettings())
    /// Of those that are not open.
    private let states = Mutex<[String: State]>([:])
    /// By database: bytes of its blobs, as they were counted last.
    private let blobBytes = Mutex<[String: UInt64]>([:])
    private let time: any TimeSource
    private let logger: Logger

    init(time: any TimeSource, logger: Logger) {
        self.time = time
        self.logger = logger
    }

    func apply(_ new: DiskSettings) { settings.withLock { $0 = new } }

    var interval: Int { settings.withLock { $0.interval } }

    func state(_ database: String) -> State? { states.withLock { $0[database] } }

    /// Asked by the store before each write.
    ///
    /// - Returns: why it is refused; nil where it is not.
    func refusal(of write: StoreWrite, database: String, folder: String, quota: Int?) -> String? {
        guard let state = state(database), state.level == .readOnly || write == .local else { return nil }
        // Room may have been made meanwhile.
        look(database, folder: folder, quota: quota)
        guard let state = self.state(database), state.level == .readOnly || write == .local else { return nil }
        return state.reason
    }

    /// Looks at the disk of a database, and at its quota.
    func look(_ database: String, folder: String, quota: Int?) {
        let before = state(database)
        let now = judge(database, folder, quota, before)
        guard now?.level != before?.level || now?.isQuota != before?.isQuota else {
            if let now { states.withLock { $0[database]?.reason = now.reason } }
            return
        }
        states.withLock { $0[database] = now }
        switch now {
        case let state?: logger.warning("database \(database): \(state.reason)")
        case nil: logger.notice("database \(database): there is room again, and everything is taken")
        }
    }

    private func judge(_ database: String, _ folder: String, _ quota: Int?, _ before: State?) -> State? {
        let since = before?.since ?? time.wallSeconds()
        if let quota {
            let size = Self.fileBytes(folder) + blobBytes.withLock { $0[database] ?? 0 }
            // What was just deleted leaves free pages, which compaction gives back.
            if size >= UInt64(quota) {
                let reason = "\(size >> 20) MiB of the quota of \(quota >> 20) MiB are used: nothing but deletions is taken; delete documents and nightjar compact \(database), or raise its quota"
                return State(level: .readOnly, reason: reason, isQuota: true, since: before?.isQuota == true ? since : time.wallSeconds())
            }
        }
        guard let space = DiskSpace(of: folder) else { return nil }
        let settings = settings.withLock { $0 }
        guard space.free <= UInt64(settings.enough) else { return nil }
        let used = (space.total - min(space.free, space.total)) * 100 / space.total
        let now = before?.isQuota == true ? .open : before?.level ?? .open
        func isOver(_ mark: Int, _ level: Level) -> Bool { mark < 100 && used >= UInt64(mark) - (now >= level ? Self.hysteresis : 0) }
        let text = "\(used) % of the disk of \(folder) is used"
        if isOver(settings.readOnly.value, .readOnly) {
            return State(
                level: .readOnly, reason: "\(text): from \(settings.readOnly.value) % (disk.read_only) nothing but deletions is taken; make room", isQuota: false, since: since)
        }
        if isOver(settings.refuseWrites.value, .noWrites) {
            return State(
                level: .noWrites, reason: "\(text): from \(settings.refuseWrites.value) % (disk.refuse_writes) writes made here are refused, what peers bring is taken; make room",
                isQuota: false, since: since)
        }
        return nil
    }

    private static func size(_ path: String) -> UInt64 {
        var facts = stat()
        return stat(path, &facts) == 0 ? UInt64(max(0, facts.st_size)) : 0
    }

    private static func fileBytes(_ folder: String) -> UInt64 {
        ["/db.sqlite3", "/db.sqlite3-wal"].reduce(0) { $0 + (Self.size(folder + $1)) }
    }

    /// Counts the blobs of a database that has a quota.
    func count(_ database: Database) async {
        guard let bytes = try? await database.blobs.perform({ try $0.totalBytes() }) else { return }
        blobBytes.withLock { $0[database.name] = bytes }
    }

    func forget(_ database: String) {
        states.withLock { $0[database] = nil }
        blobBytes.withLock { $0[database] = nil }
    }
}

extension Agent {
    /// Looks at all disks now and then, until the task is cancelled.
    nonisolated func watchDisks() async {
        while !Task.isCancelled {
            await lookAtDisks()
            try? await environment.time.sleep(seconds: disks.interval)
        }
    }

    nonisolated func lookAtDisks() async {
        let settings = settings
        disks.apply(settings.disk)
        for database in databases {
            let quota = settings.database(named: database.name)?.quota
            if quota != nil { await disks.count(database) }
            disks.look(database.name, folder: database.folder, quota: quota)
        }
    }

    nonisolated func fullness(of database: Database) -> [Attention] {
        guard let state = disks.state(database.name) else { return [] }
        let subject = "database \(database.name)"
        if state.isQuota {
            return [Attention(.quotaReached, subject, since: state.since, state.reason, remedy: "")]
        }
        let remedy = "remove what is not the agent's from that disk, or delete or purge documents and nightjar compact \(database.name); it ends by itself once there is room"
        return [Attention(state.level == .readOnly ? .databaseReadOnly : .writesRefused, subject, since: state.since, state.reason, remedy: remedy)]
    }
}
