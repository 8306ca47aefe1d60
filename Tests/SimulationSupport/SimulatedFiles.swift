import Environment
import Glibc

extension SimulatedDisk: FileSystem {
    package func open(_ path: String, _ mode: FileMode) throws(FileError) -> any OpenFile {
        try begin(.open, path)
        switch mode {
        case .read:
            guard let node = node(path) else { throw FileError(path: path, number: ENOENT) }
            return SimulatedFile(self, path, node)
        case .create:
            guard node(path) == nil else { throw FileError(path: path, number: EEXIST) }
            return SimulatedFile(self, path, try make(path, isFolder: false))
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileError) {
        try begin(.name, newPath)
        guard let found = node(path) else { throw FileError(path: path, number: ENOENT) }
        change(.move(Self.normal(path), to: Self.normal(newPath), found))
    }

    package func remove(_ path: String) throws(FileError) {
        try begin(.name, path)
        guard node(path) != nil else { throw FileError(path: path, number: ENOENT) }
        change(.unlink(Self.normal(path)))
    }

    package func makeFolder(_ path: String) throws(FileError) {
        guard node(path) == nil else { throw FileError(path: path, number: EEXIST) }
        _ = try make(path, isFolder: true)
    }

    package func names(in folder: String) throws(FileError) -> [String] {
        try begin(.read, folder)
        guard node(folder)?.isFolder == true else { throw FileError(path: folder, number: ENOENT) }
        return children(folder)
    }

    package func facts(_ path: String) throws(FileError) -> FileFacts {
        try begin(.read, path)
        guard let node = node(path) else { throw FileError(path: path, number: ENOENT) }
        return FileFacts(size: UInt64(node.bytes.count), modified: node.modified, isFolder: node.isFolder, identity: 0)
    }

    package func touch(_ path: String) throws(FileError) {
        try begin(.name, path)
        guard let node = node(path) else { throw FileError(path: path, number: ENOENT) }
        node.modified = time.wallSeconds()
    }

    package func syncFolder(_ path: String) throws(FileError) { try syncNames(of: path) }

    package func lock(_ path: String) throws(FileError) -> FileLockAttempt {
        if node(path) == nil { _ = try make(path, isFolder: false) }
        try begin(.open, path)
        guard locked.insert(Self.normal(path)).inserted else { return .held(by: nil) }
        return .taken(SimulatedLock(self, Self.normal(path)))
    }
}

/// Unchecked: used only on its disk's one thread.
private final class SimulatedFile: OpenFile, @unchecked Sendable {
    private let disk: SimulatedDisk
    private let path: String
    private let node: DiskNode
    private let generation: Int

    init(_ disk: SimulatedDisk, _ path: String, _ node: DiskNode) {
        self.disk = disk
        self.path = path
        self.node = node
        generation = disk.generation
    }

    private func checkAlive() throws(FileError) {
        guard generation == disk.generation else { throw FileError(path: path, number: EIO) }
    }

    func size() throws(FileError) -> UInt64 {
        try checkAlive()
        return UInt64(node.bytes.count)
    }

    func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int {
        try checkAlive()
        try disk.begin(.read, path)
        return node.read(buffer, at: Int(clamping: offset))
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws(FileError) {
        try checkAlive()
        try disk.write(node, path, at: node.bytes.count, [UInt8](bytes))
    }

    func sync() throws(FileError) {
        try checkAlive()
        try disk.sync(node, path)
    }
}

/// Unchecked: used only on its disk's one thread.
private final class SimulatedLock: FileLock, @unchecked Sendable {
    private let disk: SimulatedDisk
    private let path: String
    private let generation: Int
    private var isHeld = true

    init(_ disk: SimulatedDisk, _ path: String) {
        self.disk = disk
        self.path = path
        generation = disk.generation
    }

    deinit { release() }

    func release() {
        if isHeld && generation == disk.generation { disk.locked.remove(path) }
        isHeld = false
    }
}
