import Environment
import Glibc
import Synchronization

/// A disk in memory that keeps what was synced apart from what was only written, and may lose the latter in a crash.
///
/// It serves as the file system of an `Environment` and, under `vfsName`, as a VFS of SQLite. Folders other than "/" must be created.
///
/// Unchecked: used only on the thread that made it, which is asserted.
package final class SimulatedDisk: @unchecked Sendable {
    /// Calls that can be made to fail.
    package enum Operation: Hashable, CaseIterable, Sendable { case open, read, write, sync, name }

    /// A change of a folder that a power cut may undo.
    enum NameChange {
        case link(String, DiskNode)
        case unlink(String)
        case move(String, to: String, DiskNode)
    }

    private struct Planned {
        let operation: Operation
        let number: Int32
        var after: Int
    }

    /// The name under which SQLite knows this disk.
    package let vfsName: String
    /// Goes up by one with each crash: what was open before is dead afterwards.
    package private(set) var generation = 0
    /// How many calls so far changed something: writes, syncs and names.
    package private(set) var changes = 0
    /// The disk stops after this many more changes: all calls fail with EIO after that, until `crash`. Nil for never.
    package var changesUntilPowerCut: Int?
    /// How often a call fails with EIO for no reason; a write fails with ENOSPC in half of these cases.
    package var faultRates: [Operation: Double] = [:]
    /// Another process holds SQLite's lock for writing.
    package var isWriteLocked = false
    /// How many faults there have been so far, planned or by rate.
    package private(set) var faults = 0

    let time: any TimeSource
    let random: any RandomSource
    private let thread = pthread_self()
    private var names: [String: DiskNode] = [:]
    private var durableNames: [String: DiskNode] = [:]
    private var unsyncedNames: [NameChange] = []
    private var planned: [Planned] = []
    private(set) var isDead = false
    var locked: Set<String> = []
    private var vfs: RegisteredVFS?

    private static let numbers = Atomic<Int>(0)

    /// - Parameters:
    ///   - random: for faults by rate, and for SQLite.
    package init(time: any TimeSource, random: any RandomSource) {
        self.time = time
        self.random = random
        vfsName = "simulated-\(Self.numbers.wrappingAdd(1, ordering: .relaxed).newValue)"
        let root = DiskNode(isFolder: true, modified: 0)
        names["/"] = root
        durableNames["/"] = root
        vfs = RegisteredVFS(self)
    }

    // MARK: what tests do to the disk

    /// The power fails. Chance decides how much of what was not synced is there afterwards. Open files are dead, and locks are gone.
    package func crash(_ random: any RandomSource) {
        assertThread()
        generation += 1
        for change in unsyncedNames where random.chance(0.5) { Self.apply(change, to: &durableNames) }
        unsyncedNames = []
        names = durableNames
        // In a fixed order, so that the same seed does the same.
        for path in names.keys.sorted() { names[path]?.crash(random) }
        locked = []
        planned = []
        isDead = false
        changesUntilPowerCut = nil
    }

    /// Fails a later call.
    /// - Parameters:
    ///   - number: the error, such as `ENOSPC`.
    ///   - after: how many calls of this kind still work first.
    package func failNext(_ operation: Operation, _ number: Int32, after: Int = 0) {
        planned.append(Planned(operation: operation, number: number, after: after))
    }

    /// Alters a byte of a file on the medium; false if there is no such byte.
    @discardableResult
    package func corrupt(_ path: String, offset: Int, mask: UInt8 = 1) -> Bool {
        guard let node = names[Self.normal(path)], offset < node.bytes.count else { return false }
        node.corrupt(offset, mask)
        return true
    }

    /// Removes a folder with everything in it.
    package func removeTree(_ folder: String) {
        for path in names.keys where path == folder || path.hasPrefix(folder + "/") { (names[path], durableNames[path]) = (nil, nil) }
        unsyncedNames = []
    }

    /// All files, sorted.
    package var paths: [String] { names.filter { !$0.value.isFolder }.keys.sorted() }

    /// A file's bytes as programs see them.
    package func bytes(_ path: String) -> [UInt8]? { names[Self.normal(path)]?.bytes }

    // MARK: for the file system and the VFS

    func assertThread() { precondition(pthread_equal(thread, pthread_self()) != 0, "a simulated disk is used on a second thread") }

    func node(_ path: String) -> DiskNode? { names[Self.normal(path)] }

    /// To be called before each operation: throws if it is to fail.
    func begin(_ operation: Operation, _ path: String) throws(FileError) {
        assertThread()
        if isDead { throw FileError(path: path, number: EIO) }
        if operation != .read && operation != .open {
            changes += 1
            if let left = changesUntilPowerCut {
                changesUntilPowerCut = left - 1
                if left <= 0 {
                    isDead = true
                    throw FileError(path: path, number: EIO)
                }
            }
        }
        if let number = fault(operation) {
            faults += 1
            throw FileError(path: path, number: number)
        }
    }

    private func fault(_ operation: Operation) -> Int32? {
        for index in planned.indices where planned[index].operation == operation {
            if planned[index].after == 0 { return planned.remove(at: index).number }
            planned[index].after -= 1
        }
        guard let rate = faultRates[operation], random.chance(rate) else { return nil }
        return operation == .write && random.chance(0.5) ? ENOSPC : EIO
    }

    /// Writes bytes; a call that fails may have written some of them.
    func write(_ node: DiskNode, _ path: String, at offset: Int, _ bytes: [UInt8]) throws(FileError) {
        do throws(FileError) {
            try begin(.write, path)
        } catch {
            let part = bytes.prefix(random.below(bytes.count + 1))
            if !part.isEmpty { node.change(.write(offset: offset, bytes: Array(part))) }
            throw error
        }
        node.change(.write(offset: offset, bytes: bytes))
        node.modified = time.wallSeconds()
    }

    func sync(_ node: DiskNode, _ path: String) throws(FileError) {
        try begin(.sync, path)
        node.sync()
    }

    /// Makes a file or folder; its folder must exist.
    func make(_ path: String, isFolder: Bool) throws(FileError) -> DiskNode {
        try begin(.name, path)
        let path = Self.normal(path)
        guard let folder = names[Self.parent(path)] else { throw FileError(path: path, number: ENOENT) }
        guard folder.isFolder else { throw FileError(path: path, number: ENOTDIR) }
        let node = DiskNode(isFolder: isFolder, modified: time.wallSeconds())
        change(.link(path, node))
        return node
    }

    func change(_ change: NameChange) {
        Self.apply(change, to: &names)
        unsyncedNames.append(change)
    }

    func syncNames(of folder: String) throws(FileError) {
        try begin(.sync, folder)
        let folder = Self.normal(folder)
        guard names[folder]?.isFolder == true else { throw FileError(path: folder, number: ENOENT) }
        unsyncedNames.removeAll { change in
            let isHere =
                switch change {
                case .link(let path, _), .unlink(let path): Self.parent(path) == folder
                case .move(let path, let newPath, _): Self.parent(path) == folder || Self.parent(newPath) == folder
                }
            if isHere { Self.apply(change, to: &durableNames) }
            return isHere
        }
    }

    /// The names of what a folder holds, sorted.
    func children(_ folder: String) -> [String] {
        let folder = Self.normal(folder)
        return names.keys.filter { $0 != "/" && Self.parent($0) == folder }.map { String($0.split(separator: "/").last ?? "") }.sorted()
    }

    private static func apply(_ change: NameChange, to names: inout [String: DiskNode]) {
        switch change {
        case .link(let path, let node): names[path] = node
        case .unlink(let path): names[path] = nil
        case .move(let path, let newPath, let node):
            if names[path] === node { names[path] = nil }
            names[newPath] = node
        }
    }

    static func parent(_ path: String) -> String {
        let parts = path.split(separator: "/").dropLast()
        return "/" + parts.joined(separator: "/")
    }

    /// Whether no part of it is empty or begins with a dot. Asked for every access to a file.
    private static func isNormal(_ path: String) -> Bool {
        var isAtStart = false
        for byte in path.utf8 {
            if isAtStart, byte == UInt8(ascii: ".") || byte == UInt8(ascii: "/") { return false }
            isAtStart = byte == UInt8(ascii: "/")
        }
        return path.utf8.first == UInt8(ascii: "/") && !isAtStart
    }

    /// The path without "." and "..".
    static func normal(_ path: String) -> String {
        if isNormal(path) { return path }
        var parts: [Substring] = []
        for part in path.split(separator: "/") where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        return "/" + parts.joined(separator: "/")
    }
}
