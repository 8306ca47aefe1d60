import AgentConfiguration
import DocumentStore

/// How much may still be written to a database's disk, as of one check.
struct DiskRoom: Sendable {
    /// `disk_hysteresis`: a state ends only this many percent below its threshold, so that it does not toggle with each write.
    private static let hysteresis: UInt64 = 1

    private let folder: String
    private let space: DiskSpace?
    private let need: DiskReserve.Need?
    private let refuseWrites: Int
    private let readOnly: Int
    private let enough: UInt64
    /// Bytes until the threshold for local writes; unlimited if the disk's size is unknown.
    private let local: Int
    private let peers: Int
    /// Total bytes written at the time of the check, and the total at which the next check is due.
    var written = 0
    var nextCheck = 0
    /// Monotonic nanoseconds.
    var lookedAt: UInt64 = 0

    /// - Parameter pending: bytes that were admitted and are not on the disk yet.
    init(_ space: DiskSpace?, _ settings: DiskSettings, _ need: DiskReserve.Need?, folder: String, pending: Int) {
        (self.space, self.need, self.folder) = (space, need, folder)
        (refuseWrites, readOnly, enough) = (settings.refuseWrites.value, settings.readOnly.value, UInt64(settings.enough))
        guard let space else {
            (local, peers) = (.max, .max)
            return
        }
        func left(_ mark: Int) -> Int {
            let part = mark < 100 ? min(UInt64(settings.enough), space.total / 100 * UInt64(100 - mark)) : 0
            return Int(clamping: space.free) - Int(clamping: max(part, need?.floor ?? 0)) - pending
        }
        (local, peers) = (left(settings.refuseWrites.value), left(settings.readOnly.value))
    }

    /// The smaller of the two amounts, ignoring one that is used up.
    var least: Int { max(0, local > 0 ? min(local, peers) : peers) }

    /// Why this many bytes are refused.
    ///
    /// - Parameter now: the total written by now.
    func refusal(of write: StoreWrite, bytes: Int, written now: Int) -> String? {
        let room = write == .local ? local : peers
        guard bytes > 0, room != .max, bytes > room - (now - written) else { return nil }
        let mark = write == .local ? refuseWrites : readOnly
        let until = mark < 100 ? "until \(mark) % (disk.\(write == .local ? "refuse_writes" : "read_only")) of it are used" : "until it is full"
        return "\(ByteText.of(bytes)) do not fit: the disk of \(folder) has \(ByteText.of(max(0, room - (now - written)))) left \(until); make room"
    }

    /// What is refused altogether.
    ///
    /// - Parameter now: the present level.
    func state(_ now: DiskGuard.Level) -> (level: DiskGuard.Level, reason: String)? {
        guard let space else { return nil }
        if let need, need.isReleased, space.free < need.floor {
            return (.readOnly, "the disk of \(folder) is full, and its reserve (disk.reserve) is given to deletions and the log: nothing but deletions is accepted; make room")
        }
        guard space.free <= enough else { return nil }
        let used = (space.total - min(space.free, space.total)) * 100 / space.total
        func isOver(_ mark: Int, _ level: DiskGuard.Level) -> Bool { mark < 100 && used >= UInt64(mark) - (now >= level ? Self.hysteresis : 0) }
        let text = "\(used) % of the disk of \(folder) is used"
        if isOver(readOnly, .readOnly) { return (.readOnly, "\(text): from \(readOnly) % (disk.read_only) nothing but deletions is accepted; make room") }
        guard isOver(refuseWrites, .noWrites) else { return nil }
        return (.noWrites, "\(text): from \(refuseWrites) % (disk.refuse_writes) writes made here are refused, what peers bring is accepted; make room")
    }
}
