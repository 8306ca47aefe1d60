import CSQLite
import Environment
import Glibc

/// A file that SQLite has open on a simulated disk.
final class VFSFile {
    let disk: SimulatedDisk
    let path: String
    let node: DiskNode
    private let generation: Int
    private let deletesOnClose: Bool
    /// The folder is synced with the first sync of a new log or journal, as SQLite's own VFS for Unix does.
    private var syncsFolder: Bool
    private var level: Int32 = SQLITE_LOCK_NONE
    private var shared: SharedMemory?
    private var held = HeldLocks()

    init(_ disk: SimulatedDisk, _ path: String, _ node: DiskNode, deletesOnClose: Bool, syncsFolder: Bool) {
        self.disk = disk
        self.path = path
        self.node = node
        self.deletesOnClose = deletesOnClose
        self.syncsFolder = syncsFolder
        generation = disk.generation
        node.openers.append(self)
    }

    private var isAlive: Bool { generation == disk.generation && !disk.isDead }

    func close() {
        unmap(delete: false)
        node.openers.removeAll { $0 === self }
        if deletesOnClose, isAlive { disk.change(.unlink(SimulatedDisk.normal(path))) }
    }

    func read(_ target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int32 {
        guard isAlive else { return IOCode.readFailed }
        do throws(FileError) { try disk.begin(.read, path) } catch { return IOCode.readFailed }
        let count = node.read(target, at: offset)
        if count == target.count { return SQLITE_OK }
        UnsafeMutableRawBufferPointer(rebasing: target[count...]).initializeMemory(as: UInt8.self, repeating: 0)
        return IOCode.shortRead
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int32 {
        guard isAlive else { return IOCode.writeFailed }
        do throws(FileError) { try disk.write(node, path, at: offset, [UInt8](bytes)) } catch {
            return error.isFull ? SQLITE_FULL : IOCode.writeFailed
        }
        return SQLITE_OK
    }

    func truncate(_ size: Int) -> Int32 {
        guard isAlive else { return IOCode.truncateFailed }
        do throws(FileError) { try disk.begin(.write, path) } catch { return IOCode.truncateFailed }
        node.change(.resize(size))
        return SQLITE_OK
    }

    func sync() -> Int32 {
        guard isAlive else { return IOCode.syncFailed }
        do throws(FileError) {
            try disk.sync(node, path)
            if syncsFolder { try disk.syncNames(of: SimulatedDisk.parent(SimulatedDisk.normal(path))) }
        } catch {
            return IOCode.syncFailed
        }
        syncsFolder = false
        return SQLITE_OK
    }

    func size() -> Int? { isAlive ? node.bytes.count : nil }

    // MARK: locks of the file

    func lock(_ wanted: Int32) -> Int32 {
        guard isAlive else { return IOCode.lockFailed }
        if wanted <= level { return SQLITE_OK }
        let highest = node.openers.lazy.filter { $0 !== self }.map(\.level).max() ?? SQLITE_LOCK_NONE
        switch wanted {
        case SQLITE_LOCK_SHARED:
            if highest >= SQLITE_LOCK_PENDING { return SQLITE_BUSY }
        case SQLITE_LOCK_RESERVED:
            if highest >= SQLITE_LOCK_RESERVED { return SQLITE_BUSY }
        default:
            if highest >= SQLITE_LOCK_RESERVED { return SQLITE_BUSY }
            // No new readers are let in while this one waits for those that are there.
            level = SQLITE_LOCK_PENDING
            if highest >= SQLITE_LOCK_SHARED { return SQLITE_BUSY }
        }
        level = wanted
        return SQLITE_OK
    }

    func unlock(_ wanted: Int32) { level = min(level, wanted) }

    var isReserved: Bool { node.openers.contains { $0.level >= SQLITE_LOCK_RESERVED } }

    // MARK: shared memory

    func map(_ index: Int, bytes: Int, extend: Bool) -> Result<UnsafeMutableRawPointer?, FileError> {
        guard isAlive else { return .failure(FileError(path: path, number: EIO)) }
        let memory: SharedMemory
        if let shared {
            memory = shared
        } else {
            memory = node.sharedMemory ?? SharedMemory()
            node.sharedMemory = memory
            shared = memory
            memory.users += 1
        }
        return .success(memory.region(index, bytes: bytes, extend: extend))
    }

    func lockShared(_ range: Range<Int>, _ flags: Int32) -> Int32 {
        guard isAlive, let shared else { return IOCode.sharedLockFailed }
        if flags & SQLITE_SHM_UNLOCK != 0 {
            shared.unlock(range, &held)
            return SQLITE_OK
        }
        // The first lock of a write-ahead log is the writer's.
        if disk.isWriteLocked, flags & SQLITE_SHM_EXCLUSIVE != 0, range.contains(0), !held.exclusive.contains(0) { return SQLITE_BUSY }
        return shared.lock(range, exclusive: flags & SQLITE_SHM_EXCLUSIVE != 0, &held) ? SQLITE_OK : SQLITE_BUSY
    }

    func unmap(delete: Bool) {
        guard let memory = shared else { return }
        memory.unlock(0..<Int(SQLITE_SHM_NLOCK), &held)
        memory.users -= 1
        shared = nil
        if memory.users == 0, node.sharedMemory === memory { node.sharedMemory = nil }
    }
}

extension FileError {
    /// Whether the disk is full.
    var isFull: Bool { number == ENOSPC }
}

/// SQLite's extended result codes for input and output, which are macros that Swift does not see.
enum IOCode {
    static let readFailed = SQLITE_IOERR | (1 << 8)
    static let shortRead = SQLITE_IOERR | (2 << 8)
    static let writeFailed = SQLITE_IOERR | (3 << 8)
    static let syncFailed = SQLITE_IOERR | (4 << 8)
    static let truncateFailed = SQLITE_IOERR | (6 << 8)
    static let sizeFailed = SQLITE_IOERR | (7 << 8)
    static let deleteFailed = SQLITE_IOERR | (10 << 8)
    static let deleteMissing = SQLITE_IOERR | (23 << 8)
    static let lockFailed = SQLITE_IOERR | (15 << 8)
    static let sharedLockFailed = SQLITE_IOERR | (20 << 8)
    static let sharedMapFailed = SQLITE_IOERR | (21 << 8)
}
