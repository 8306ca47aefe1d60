import Environment

/// A file or folder of a simulated disk: what programs see, what is durable, and the changes between the two.
final class DiskNode {
    /// A change that a power cut may undo.
    enum Change {
        case write(offset: Int, bytes: [UInt8])
        case resize(Int)
    }

    static let sectorBytes = 512

    let isFolder: Bool
    /// Seconds since 1970.
    var modified: Int64
    /// The content as programs see it.
    private(set) var bytes: [UInt8] = []
    private var durable: [UInt8] = []
    /// In the order in which they were made.
    private var unsynced: [Change] = []
    /// Files that SQLite has open here, for their locks.
    var openers: [VFSFile] = []
    /// The index of the write-ahead log that belongs to this file; lost in a crash.
    var sharedMemory: SharedMemory?

    init(isFolder: Bool, modified: Int64) {
        self.isFolder = isFolder
        self.modified = modified
    }

    func change(_ change: Change) {
        Self.apply(change, to: &bytes)
        unsynced.append(change)
    }

    /// Copies bytes from an offset and returns how many there were.
    func read(_ target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
        bytes.withUnsafeBytes { source in
            guard offset < source.count else { return 0 }
            let part = UnsafeRawBufferPointer(rebasing: source[offset..<min(source.count, offset + target.count)])
            if part.count > 0 { target.copyMemory(from: part) }
            return part.count
        }
    }

    func sync() {
        for change in unsynced { Self.apply(change, to: &durable) }
        unsynced = []
    }

    /// Keeps some of the unsynced changes, by sectors, as chance decides.
    func crash(_ random: any RandomSource) {
        for change in unsynced {
            switch change {
            case .resize: if random.chance(0.5) { Self.apply(change, to: &durable) }
            case .write(let offset, let bytes): keepSome(offset, bytes, random)
            }
        }
        unsynced = []
        bytes = durable
        openers = []
        sharedMemory = nil
    }

    private func keepSome(_ offset: Int, _ bytes: [UInt8], _ random: any RandomSource) {
        // A write is kept whole, not at all, or sector by sector. The first two are what disks do most often.
        let fate = random.below(4)
        if fate == 0 { return }
        if fate == 1 { return Self.apply(.write(offset: offset, bytes: bytes), to: &durable) }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + Self.sectorBytes - (offset + start) % Self.sectorBytes)
            var kept = end - start
            switch random.below(8) {
            case 0..<4: break
            case 4: kept = random.below(kept + 1) // torn
            default: kept = 0
            }
            if kept > 0 { Self.apply(.write(offset: offset + start, bytes: Array(bytes[start..<start + kept])), to: &durable) }
            start = end
        }
    }

    /// Changes both what is durable and what programs see, as a failing medium does.
    func corrupt(_ offset: Int, _ mask: UInt8) {
        if offset < bytes.count { bytes[offset] ^= mask }
        if offset < durable.count { durable[offset] ^= mask }
    }

    private static func apply(_ change: Change, to content: inout [UInt8]) {
        switch change {
        case .write(let offset, let bytes):
            let end = offset + bytes.count
            if bytes.isEmpty { return }
            if offset == content.count { return content.append(contentsOf: bytes) }
            if content.count < end { content.append(contentsOf: [UInt8](repeating: 0, count: end - content.count)) }
            content.withUnsafeMutableBytes { target in
                bytes.withUnsafeBytes { source in
                    UnsafeMutableRawBufferPointer(rebasing: target[offset..<end]).copyMemory(from: source)
                }
            }
        case .resize(let size):
            if size < content.count {
                content.removeLast(content.count - size)
            } else {
                content.append(contentsOf: [UInt8](repeating: 0, count: size - content.count))
            }
        }
    }
}
