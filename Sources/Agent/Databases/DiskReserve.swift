import Environment
import Glibc
import Logging
import Synchronization

/// A file that keeps a little room on the disk of the data folder. It is given up when the disk is full, so that deletions, compaction and
/// the log can go on, and made again when there is room. Until then nothing else is taken, or the room would be gone like that before it.
final class DiskReserve: Sendable {
    /// What it asks of who writes to its disk.
    struct Need: Sendable {
        /// Bytes that are to stay free.
        var floor: UInt64
        /// The file is given up, or was never made for lack of room.
        var isReleased: Bool
    }

    private struct State {
        /// Bytes of the file; 0 while there is none.
        var size: UInt64 = 0
        var fileSystem: UInt64?
        var isKnown = false
    }

    static let name = "disk.reserve"
    /// `disk_reserve_part`: it takes at most this part of its disk.
    private static let part: UInt64 = 32

    private let folder: String
    private let logger: Logger
    private let state = Mutex(State())

    init(folder: String, logger: Logger) { (self.folder, self.logger) = (folder, logger) }

    private var path: String { "\(folder)/\(Self.name)" }

    /// Makes the file or gives it up, by the room on its disk.
    ///
    /// - Parameter wanted: its size; 0 for none.
    func look(wanted: Int) {
        guard let space = DiskSpace(of: folder) else { return }
        state.withLock { $0.fileSystem = space.fileSystem }
        _ = need(space, wanted: wanted)
    }

    /// The same with what is known of a disk.
    ///
    /// - Returns: nil where it is another one than the reserve's, or there is to be none.
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
            // Not with the room that was just given up.
            if state.size == 0, free == space.free, free >= size * 3, make(size) {
                state.size = size
                logger.info("a reserve of \(ByteText.of(Int(size))) is kept on the disk of \(folder)")
            }
            return state.size > 0 ? Need(floor: size / 2, isReleased: false) : Need(floor: size * 2, isReleased: true)
        }
    }

    private func make(_ size: UInt64) -> Bool {
        guard let file = try? RegularFile.open(path, O_WRONLY | O_CREAT | O_TRUNC) else { return false }
        defer { close(file) }
        // A hole would keep nothing.
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
