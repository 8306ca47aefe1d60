import Environment
import Glibc
import Logging
import Synchronization

/// A file that reserves a little space on the disk of the data folder. It is removed when the disk is full, so that deletions, compaction and the log
/// can go on, and made again when there is space. Until then no other writes are accepted, or they would use up the released space.
final class DiskReserve: Sendable {
    /// What it requires of those who write to its disk.
    struct Need: Sendable {
        /// Bytes of the reserve, when it is there.
        var size: UInt64
        /// Bytes that are to stay free.
        var floor: UInt64
        /// The file has been released, or could not be made for lack of space.
        var isReleased: Bool
    }

    private struct State {
        /// Size of the file; 0 if there is none.
        var size: UInt64 = 0
        var fileSystem: UInt64?
        var isKnown = false
    }

    static let name = "disk.reserve"
    /// `disk_reserve_part`: it uses at most this part of its disk.
    private static let part: UInt64 = 32

    private let folder: String
    private let logger: Logger
    private let state = Mutex(State())

    init(folder: String, logger: Logger) { (self.folder, self.logger) = (folder, logger) }

    private var path: String { "\(folder)/\(Self.name)" }

    /// Makes or releases the file, depending on the free space on its disk.
    ///
    /// - Parameter wanted: its size; 0 for no reserve.
    func look(wanted: Int) {
        guard let space = DiskSpace(of: folder) else { return }
        state.withLock { $0.fileSystem = space.fileSystem }
        _ = need(space, wanted: wanted)
    }

    /// The same, given what is known about a disk.
    ///
    /// - Returns: nil if the disk is not the reserve's, or there is to be no reserve.
    func need(_ space: DiskSpace, wanted: Int) -> Need? {
        state.withLock { state -> Need? in
            guard state.fileSystem == space.fileSystem else { return nil }
            let size = min(UInt64(max(0, wanted)), space.total / Self.part)
            if !state.isKnown {
                state.size = Self.size(path)
                state.isKnown = true
            }
            var free = space.free
            if state.size > 0, state.size != size || free < size / 2 {
                unlink(path)
                free += state.size
                if state.size == size {
                    logger.warning("the disk of \(folder) is full: its reserve of \(ByteText.of(Int(size))) (disk.reserve) is given to deletions, compaction and the log")
                }
                state.size = 0
            }
            guard size > 0 else { return nil }
            // Not with the space that was just released.
            if state.size == 0, free == space.free, free >= size * 3, make(size) {
                state.size = size
                logger.info("a reserve of \(ByteText.of(Int(size))) is kept on the disk of \(folder)")
            }
            return state.size > 0 ? Need(size: size, floor: size / 2, isReleased: false) : Need(size: size, floor: size * 2, isReleased: true)
        }
    }

    private func make(_ size: UInt64) -> Bool {
        guard let file = try? RegularFile.open(path, O_WRONLY | O_CREAT | O_TRUNC) else { return false }
        defer { close(file) }
        // A sparse file would reserve nothing.
        guard posix_fallocate(file, 0, off_t(clamping: size)) == 0 else {
            unlink(path)
            return false
        }
        return true
    }

    private static func size(_ path: String) -> UInt64 {
        var facts = stat()
        return stat(path, &facts) == 0 ? UInt64(max(0, facts.st_size)) : 0
    }
}
