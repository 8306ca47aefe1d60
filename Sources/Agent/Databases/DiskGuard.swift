import AgentConfiguration
import DocumentStore
import Environment
import Logging
import Synchronization

/// Keeps databases from filling their disk or their quota: above a certain level local writes are refused, and above a higher one what peers push
/// too. It recovers automatically: each refusal first checks the disk again.
///
/// Written bytes are counted, and the disk is checked after a number of bytes or some time; the less space there is, the more often.
final class DiskGuard: Sendable {
    /// Which writes are accepted.
    enum Level: Int, Comparable, Sendable {
        case open, noWrites, readOnly

        static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    /// The present state.
    struct State: Sendable {
        var level: Level
        /// For the writer who is refused.
        var reason: String
        /// For status and the log, which name the database themselves.
        var fact: String
        /// What helps, if the fact does not say so.
        var remedy = ""
        var isQuota: Bool
        /// Seconds since 1970.
        var since: Int64

        func refuses(_ write: StoreWrite) -> Bool { level == .readOnly || write == .local }
    }

    /// A database, and what is known of its disk space.
    final class Place: Sendable {
        let database: String
        let folder: String
        let usage: StoreUsage
        let view = Mutex(View())
        private let limit: Mutex<Int?>

        init(_ database: String, folder: String, quota: Int?, _ usage: StoreUsage) {
            (self.database, self.folder, self.usage) = (database, folder, usage)
            limit = Mutex(quota)
        }

        /// A reload changes it while the database is in use.
        var quota: Int? {
            get { limit.withLock { $0 } }
            set { limit.withLock { $0 = newValue } }
        }
    }

    struct View: Sendable {
        var state: State?
        /// Nil before the first check.
        var room: DiskRoom?
        /// When space became available again for the last time, or the quota was raised (seconds since 1970).
        var spaceFreedAt: Int64?
        /// When the database may be compacted again to free space (monotonic nanoseconds).
        var nextRelief: UInt64 = 0
    }

    /// `disk_look_bytes`: the disk is checked again after a quarter of the free space has been written, but at most this many and at least that many
    /// bytes.
    private static let lookBytes = (most: 4 << 20, least: 64 << 10)
    /// `disk_look_time`: nanoseconds after which the next write triggers a check.
    private static let lookNanoseconds: UInt64 = 1_000_000_000
    /// `disk_retry_bytes`: free bytes at which a write that met a full disk is retried.
    private static let retryBytes: UInt64 = 64 << 10
    /// With less than this part of the quota left, space is short: a document that does not fit waits until deletions free space, so deleted bodies
    /// must not be kept as bases for deltas.
    private static let short = 8

    /// `disk_nearly_full`: with less free space than this many times the reserve, the log of a database is kept shorter than the reserve.
    private static let nearlyFull: UInt64 = 32

    let reserve: DiskReserve
    private let settings: Mutex<DiskSettings>
    private let places = Mutex<[String: Place]>([:])
    private let time: any TimeSource
    private let logger: Logger

    /// - Parameter marks: how full the disk may be, without a reserve on it, until ``apply(_:)``.
    init(dataFolder: String, marks: DiskSettings = DiskSettings(), time: any TimeSource, logger: Logger) {
        settings = Mutex(marks)
        self.time = time
        self.logger = logger
        reserve = DiskReserve(folder: dataFolder, logger: logger)
    }

    func apply(_ new: DiskSettings) {
        settings.withLock { $0 = new }
        reserve.look(wanted: new.reserve)
    }

    var interval: Int { settings.withLock { $0.interval } }

    /// Watches a database that is about to be opened.
    func watch(_ wanted: DatabaseSettings, folder: String, _ options: inout DatabaseOptions) {
        let place = Place(wanted.name.value, folder: folder, quota: wanted.quota, options.usage)
        places.withLock { $0[place.database] = place }
        options.refusal = { [self] in refusal(of: $0, bytes: $1, at: place) }
        options.onDiskFailure = { [self] in
            look(place)
            // The reserve may just have been released, by this check or by another database's.
            return (DiskSpace(of: folder)?.free ?? 0) >= Self.retryBytes
        }
    }

    /// Sets the quota of a database whose blobs have been counted.
    func change(quota: Int?, of database: String) {
        guard let place = place(database) else { return }
        let before = place.quota
        place.quota = quota
        look(place)
        if quota ?? .max > before ?? .max { place.view.withLock { $0.spaceFreedAt = time.wallSeconds() } }
    }

    func place(_ database: String) -> Place? { places.withLock { $0[database] } }

    /// Whether a write refused for lack of space at that time (seconds since 1970) may succeed now, because there is more space since.
    func hasMoreSpace(_ databases: [String], since last: Int64) -> Bool {
        let views = databases.compactMap { place($0)?.view.withLock { $0 } }
        return !views.contains { $0.state != nil } && views.contains { ($0.spaceFreedAt ?? .min) >= last }
    }

    func state(_ database: String) -> State? { place(database)?.view.withLock { $0.state } }

    /// - Returns: why a write of this many bytes is refused; nil if it is not.
    func refusal(of write: StoreWrite, bytes: Int, at place: Place) -> String? {
        guard opinion(write, bytes, place) != nil || isOutOfDate(place) else { return nil }
        // Space may have been freed meanwhile, or used by others.
        look(place)
        return opinion(write, bytes, place)
    }

    private func opinion(_ write: StoreWrite, _ bytes: Int, _ place: Place) -> String? {
        let view = place.view.withLock { $0 }
        if let state = view.state, state.refuses(write) { return state.reason }
        if let quota = place.quota {
            if Self.isReached(quota, place.usage.storedBytes) { return Self.sentence(0, of: quota, place) }
            // One large write of many documents may not fit although smaller ones do.
            let held = place.usage.heldBytes
            if bytes > quota - held { return Self.sentence(bytes, of: quota, place) }
        }
        return view.room?.refusal(of: write, bytes: bytes, written: place.usage.writtenBytes)
    }

    private func isOutOfDate(_ place: Place) -> Bool {
        guard let room = place.view.withLock({ $0.room }) else { return true }
        return place.usage.writtenBytes >= room.nextCheck || time.monotonicNanoseconds() - room.lookedAt >= Self.lookNanoseconds
    }

    /// Checks the disk and the quota of a database.
    func look(_ place: Place) {
        let (now, settings, written) = (time.monotonicNanoseconds(), settings.withLock { $0 }, place.usage.writtenBytes)
        let space = DiskSpace(of: place.folder)
        let need = space.flatMap { reserve.need($0, wanted: settings.reserve) }
        var room = DiskRoom(space, settings, need, folder: place.folder, pending: place.usage.pendingBytes)
        let count = max(1, places.withLock { $0.count })
        (room.written, room.lookedAt) = (written, now)
        room.nextCheck = written + max(Self.lookBytes.least, min(Self.lookBytes.most, room.least / 4 / count))
        // The WAL's contents must also fit in the database file: into what is left now, and on a small or nearly full disk into the reserve, because
        // others may fill the rest at any moment. Without room for that, the log could not be reused, and nothing could be deleted.
        var logBytes = room.least / 8
        if let space, let need, space.free < need.size * Self.nearlyFull { logBytes = min(logBytes, Int(clamping: need.size / 2)) }
        place.usage.logPages = Int32(clamping: logBytes / 4096)
        let (before, after) = place.view.withLock { view in
            let before = view.state
            view.state = judge(place, room, before)
            view.room = room
            if before != nil, view.state == nil { view.spaceFreedAt = time.wallSeconds() }
            return (before, view.state)
        }
        place.usage.isShort = after != nil || (place.quota.map { place.usage.heldBytes > $0 - $0 / Self.short } ?? false)
        guard after?.level != before?.level || after?.isQuota != before?.isQuota else { return }
        switch after {
        case let state?: logger.warning("database \(place.database): \(state.fact)\(state.remedy.isEmpty ? "" : "; \(state.remedy)")")
        case nil: logger.notice("database \(place.database): there is room again, and everything is accepted")
        }
    }

    private func judge(_ place: Place, _ room: DiskRoom, _ before: State?) -> State? {
        if let quota = place.quota, Self.isReached(quota, place.usage.storedBytes) {
            return State(
                level: .readOnly, reason: Self.sentence(0, of: quota, place), fact: Self.reached(quota, place), remedy: Self.ways, isQuota: true,
                since: before?.isQuota == true ? before?.since ?? time.wallSeconds() : time.wallSeconds())
        }
        let known = before?.isQuota == true ? nil : before
        return room.state(known?.level ?? .open).map { State(level: $0.level, reason: $0.reason, fact: $0.reason, isQuota: false, since: known?.since ?? time.wallSeconds()) }
    }

    private static func isReached(_ quota: Int, _ held: Int) -> Bool { DatabaseQuota.isReached(quota, held) }

    private static func sentence(_ bytes: Int, of quota: Int, _ place: Place) -> String {
        guard bytes > 0 else { return "database \(place.database) \(reached(quota, place)); \(ways)" }
        let does = "database \(place.database) \(held(quota, place)), and \(ByteText.of(bytes)) more do not fit"
        guard isReached(quota, bytes) else { return "\(does); \(ways)" }
        return "\(does): that is more than the whole quota, and will never fit: raise the quota above \(ByteText.of(bytes)), or, if it is a document, set max_document_bytes of the "
            + "database below the quota, so that it is refused for good"
    }

    private static let ways = "\(RoomRemedy.purge), or raise its quota"

    private static func held(_ quota: Int, _ place: Place) -> String {
        "holds \(ByteText.of(place.usage.heldBytes)) of its quota of \(ByteText.of(quota))"
    }

    private static func reached(_ quota: Int, _ place: Place) -> String { "\(held(quota, place)): nothing but deletions is accepted" }

    // MARK: Freeing space

    /// `disk_relief_time`: minimum nanoseconds between two compactions of a database without space, and how many times the duration of the last
    /// compaction.
    private static let relief = (nanoseconds: UInt64(10_000_000_000), times: UInt64(20))

    /// Compacts a database that has no space left, so that deleted data and unreferenced blobs free space by themselves.
    ///
    /// - Returns: false if it is too early for another compaction.
    func relieve(_ database: Database) async throws -> Bool {
        guard let place = place(database.name) else { return false }
        let begin = time.monotonicNanoseconds()
        let isDue = place.view.withLock { $0.state != nil && begin >= $0.nextRelief }
        guard isDue else { return false }
        defer {
            let now = time.monotonicNanoseconds()
            place.view.withLock { $0.nextRelief = now + max(Self.relief.nanoseconds, Self.relief.times * (now - begin)) }
        }
        _ = try await database.compact()
        return true
    }

    /// Whether the disk needs the space that the database has free in its file.
    func lacksFreePages(_ database: String) -> Bool {
        guard let place = place(database) else { return false }
        return place.usage.freePages > 0 && place.view.withLock { $0.state?.isQuota == false }
    }
}
