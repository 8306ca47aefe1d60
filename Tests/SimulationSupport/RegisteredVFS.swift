import CSQLite
import Environment
import Glibc

/// The VFS through which SQLite uses a simulated disk, registered for as long as this object lives.
final class RegisteredVFS {
    /// What SQLite allocates for an open file.
    private struct FileMemory {
        var base: sqlite3_file
        var file: Unmanaged<VFSFile>?
    }

    private let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    private let name: UnsafeMutablePointer<CChar>?

    init(_ disk: SimulatedDisk) {
        // SQLite registers its own VFS when it is initialised, and that one has to stay the default.
        sqlite3_initialize()
        name = strdup(disk.vfsName)
        var made = sqlite3_vfs()
        made.iVersion = 2
        made.szOsFile = Int32(MemoryLayout<FileMemory>.size)
        made.mxPathname = 1024
        made.zName = UnsafePointer(name)
        // Unowned is safe: every open file retains its disk, and SQLite calls the VFS only for a database that is open or being opened.
        made.pAppData = Unmanaged.passUnretained(disk).toOpaque()
        made.xOpen = { vfs, name, file, flags, outFlags in RegisteredVFS.open(vfs, name, file, flags, outFlags) }
        made.xDelete = { vfs, name, syncFolder in RegisteredVFS.delete(vfs, name, syncFolder != 0) }
        made.xAccess = { vfs, name, _, result in
            guard let disk = RegisteredVFS.disk(vfs), let name else { return SQLITE_ERROR }
            disk.assertThread()
            result?.pointee = disk.node(String(cString: name)) == nil ? 0 : 1
            return SQLITE_OK
        }
        made.xFullPathname = { _, name, size, out in
            guard let name, let out else { return SQLITE_ERROR }
            let path = SimulatedDisk.normal(String(cString: name))
            guard path.utf8.count < Int(size) else { return SQLITE_CANTOPEN }
            path.withCString { _ = strcpy(out, $0) }
            return SQLITE_OK
        }
        made.xRandomness = { vfs, count, out in
            guard let disk = RegisteredVFS.disk(vfs), let out else { return 0 }
            let bytes = disk.random.bytes(Int(count))
            for (index, byte) in bytes.enumerated() { out[index] = CChar(bitPattern: byte) }
            return count
        }
        // A caller that waits occupies the only thread, so waiting helps nobody: SQLite just gives up after as many tries as it has time for.
        made.xSleep = { _, microseconds in microseconds }
        made.xCurrentTime = { vfs, out in
            guard let disk = RegisteredVFS.disk(vfs) else { return SQLITE_ERROR }
            out?.pointee = 2_440_587.5 + Double(disk.time.wallSeconds()) / 86_400
            return SQLITE_OK
        }
        made.xCurrentTimeInt64 = { vfs, out in
            guard let disk = RegisteredVFS.disk(vfs) else { return SQLITE_ERROR }
            out?.pointee = 210_866_760_000_000 + disk.time.wallSeconds() * 1000
            return SQLITE_OK
        }
        made.xGetLastError = { _, _, _ in 0 }
        vfs.initialize(to: made)
        sqlite3_vfs_register(vfs, 0)
    }

    deinit {
        sqlite3_vfs_unregister(vfs)
        vfs.deallocate()
        free(name)
    }

    private static func disk(_ vfs: UnsafeMutablePointer<sqlite3_vfs>?) -> SimulatedDisk? {
        vfs?.pointee.pAppData.map { Unmanaged<SimulatedDisk>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func open(
        _ vfs: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ flags: Int32, _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        guard let disk = disk(vfs), let file else { return SQLITE_ERROR }
        // Nil tells SQLite that there is nothing to close.
        file.pointee.pMethods = nil
        let path = name.map { String(cString: $0) } ?? "/temporary-\(disk.changes)"
        let node: DiskNode
        var isNew = false
        do throws(FileError) {
            try disk.begin(.open, path)
            if let found = disk.node(path) {
                node = found
            } else {
                guard flags & SQLITE_OPEN_CREATE != 0 else { return SQLITE_CANTOPEN }
                node = try disk.make(path, isFolder: false)
                isNew = true
            }
        } catch {
            return SQLITE_CANTOPEN
        }
        guard !node.isFolder else { return SQLITE_CANTOPEN }
        let isJournal = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL) != 0
        let opened = VFSFile(
            disk, path, node, deletesOnClose: flags & SQLITE_OPEN_DELETEONCLOSE != 0, syncsFolder: isNew && isJournal)
        file.withMemoryRebound(to: FileMemory.self, capacity: 1) { $0.pointee.file = Unmanaged.passRetained(opened) }
        file.pointee.pMethods = UnsafePointer(methods)
        outFlags?.pointee = flags
        return SQLITE_OK
    }

    private static func delete(
        _ vfs: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?, _ syncFolder: Bool
    ) -> Int32 {
        guard let disk = disk(vfs), let name else { return SQLITE_ERROR }
        let path = String(cString: name)
        guard disk.node(path) != nil else { return IOCode.deleteMissing }
        do throws(FileError) {
            try disk.remove(path)
            if syncFolder { try disk.syncNames(of: SimulatedDisk.parent(SimulatedDisk.normal(path))) }
        } catch {
            return IOCode.deleteFailed
        }
        return SQLITE_OK
    }

    private static func file(_ pointer: UnsafeMutablePointer<sqlite3_file>?) -> VFSFile? {
        pointer?.withMemoryRebound(to: FileMemory.self, capacity: 1) { $0.pointee.file?.takeUnretainedValue() }
    }

    /// The methods of all files on all disks. Never changed once made, and never freed.
    private nonisolated(unsafe) static let methods: UnsafeMutablePointer<sqlite3_io_methods> = {
        var made = sqlite3_io_methods()
        made.iVersion = 2
        made.xClose = { pointer in
            RegisteredVFS.file(pointer)?.close()
            pointer?.withMemoryRebound(to: FileMemory.self, capacity: 1) {
                $0.pointee.file?.release()
                $0.pointee.file = nil
            }
            return SQLITE_OK
        }
        made.xRead = { pointer, target, count, offset in
            guard let file = RegisteredVFS.file(pointer) else { return IOCode.readFailed }
            return file.read(UnsafeMutableRawBufferPointer(start: target, count: Int(count)), at: Int(offset))
        }
        made.xWrite = { pointer, source, count, offset in
            guard let file = RegisteredVFS.file(pointer) else { return IOCode.writeFailed }
            return file.write(UnsafeRawBufferPointer(start: source, count: Int(count)), at: Int(offset))
        }
        made.xTruncate = { pointer, size in RegisteredVFS.file(pointer)?.truncate(Int(size)) ?? IOCode.truncateFailed }
        made.xSync = { pointer, _ in RegisteredVFS.file(pointer)?.sync() ?? IOCode.syncFailed }
        made.xFileSize = { pointer, out in
            guard let size = RegisteredVFS.file(pointer)?.size() else { return IOCode.sizeFailed }
            out?.pointee = Int64(size)
            return SQLITE_OK
        }
        made.xLock = { pointer, level in RegisteredVFS.file(pointer)?.lock(level) ?? IOCode.lockFailed }
        made.xUnlock = { pointer, level in
            RegisteredVFS.file(pointer)?.unlock(level)
            return SQLITE_OK
        }
        made.xCheckReservedLock = { pointer, out in
            out?.pointee = RegisteredVFS.file(pointer)?.isReserved == true ? 1 : 0
            return SQLITE_OK
        }
        made.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        // As SQLite's own VFS for Unix says: a torn write does not harm the bytes next to it.
        made.xSectorSize = { _ in 4096 }
        made.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        made.xShmMap = { pointer, index, bytes, extend, out in
            guard let file = RegisteredVFS.file(pointer) else { return IOCode.sharedMapFailed }
            switch file.map(Int(index), bytes: Int(bytes), extend: extend != 0) {
            case .success(let region):
                out?.pointee = UnsafeMutableRawPointer(region)
                return SQLITE_OK
            case .failure: return IOCode.sharedMapFailed
            }
        }
        made.xShmLock = { pointer, offset, count, flags in
            RegisteredVFS.file(pointer)?.lockShared(Int(offset)..<Int(offset + count), flags) ?? IOCode.sharedLockFailed
        }
        made.xShmBarrier = { _ in }
        made.xShmUnmap = { pointer, delete in
            RegisteredVFS.file(pointer)?.unmap(delete: delete != 0)
            return SQLITE_OK
        }
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: made)
        return methods
    }()
}
