import Glibc

/// Notifications of changes in folders (inotify). They only say that something may have changed; what has changed is found by reading.
/// Confined to the supervisor's thread.
struct FolderWatch: ~Copyable {
    /// Nil if the system provides no inotify instance (because of its per-user limit): then only the periodic rescan notices changes.
    let number: Int32?

    /// The relevant entries in one watched folder.
    private enum Interest {
        case everything
        case names(Set<String>)

        func covers(_ name: String) -> Bool {
            switch self {
            case .everything: true
            // Kubernetes changes a folder of links by replacing a link with a name like "..data".
            case .names(let names): names.contains(name) || name.utf8.starts(with: "..".utf8)
            }
        }

        mutating func add(_ other: Interest) {
            switch (self, other) {
            case (.names(let a), .names(let b)): self = .names(a.union(b))
            default: self = .everything
            }
        }
    }

    private var interests: [Int32: Interest] = [:]

    private static let entryChanges = UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
    private static let selfChanges = UInt32(IN_DELETE_SELF | IN_MOVE_SELF)
    private static let contentChanges = UInt32(IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB)

    init() {
        let made = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        number = made >= 0 ? made : nil
    }

    deinit { if let number { close(number) } }

    /// From now on, watches exactly these.
    ///
    /// - Parameters:
    ///   - folder: the configured absolute path; every folder above it is watched for the next path component, because any component may be a
    ///     link that changes.
    ///   - directories: relative paths below it.
    ///   - files: absolute paths of files given as parameters.
    mutating func watch(folder: String, directories: [String], files: [String]) {
        guard let number else { return }
        var wanted: [Int32: Interest] = [:]
        func add(_ path: String, _ mask: UInt32, _ interest: Interest) {
            let descriptor = inotify_add_watch(number, path, mask | UInt32(IN_MASK_ADD) | UInt32(IN_ONLYDIR))
            guard descriptor >= 0 else { return }
            if wanted[descriptor]?.add(interest) == nil { wanted[descriptor] = interest }
        }
        func addFolders(above path: String, _ nearest: UInt32) {
            var above = path
            var mask = nearest
            while above.utf8.count > 1, let slash = above.utf8.lastIndex(of: UInt8(ascii: "/")) {
                let name = String(above[above.index(after: slash)...])
                above = slash == above.startIndex ? "/" : String(above[..<slash])
                add(above, mask, .names([name]))
                mask = Self.entryChanges
            }
        }
        addFolders(above: folder, Self.entryChanges)
        // A file may be written in place; in the folders above, only entries matter.
        for file in files { addFolders(above: file, Self.entryChanges | Self.contentChanges) }
        for directory in directories {
            add(
                directory.isEmpty ? folder : "\(folder)/\(directory)",
                Self.entryChanges | Self.selfChanges | Self.contentChanges, .everything)
        }
        for descriptor in interests.keys where wanted[descriptor] == nil { inotify_rm_watch(number, descriptor) }
        interests = wanted
    }

    /// Reads all pending notifications; true if one of them is relevant. Lost notifications (a full queue) count as relevant.
    mutating func drain() -> Bool {
        guard let number else { return false }
        var matters = false
        let size = 64 << 10
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: MemoryLayout<inotify_event>.alignment)
        defer { buffer.deallocate() }
        while true {
            let count = read(number, buffer.baseAddress, size)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { return matters }
            var at = 0
            let header = MemoryLayout<inotify_event>.size
            while at + header <= count {
                let event = buffer.loadUnaligned(fromByteOffset: at, as: inotify_event.self)
                let end = min(count, at + header + Int(event.len))
                let name = String(decoding: buffer[(at + header)..<end].prefix { $0 != 0 }, as: UTF8.self)
                at = end
                let mask = event.mask
                if mask & UInt32(IN_Q_OVERFLOW) != 0 {
                    matters = true
                } else if let interest = interests[event.wd] {
                    if mask & (Self.selfChanges | UInt32(IN_IGNORED | IN_UNMOUNT)) != 0 || interest.covers(name) { matters = true }
                    if mask & UInt32(IN_IGNORED) != 0 { interests[event.wd] = nil }
                }
            }
        }
    }
}
