import CSQLite

/// The index of a write-ahead log that all connections of a process share: memory that is lost in a crash.
final class SharedMemory {
    private var regions: [UnsafeMutableRawPointer] = []
    /// For each lock, how many files share it; -1 when one holds it exclusively.
    private var locks = [Int](repeating: 0, count: Int(SQLITE_SHM_NLOCK))
    /// How many files have mapped it.
    var users = 0

    deinit { for region in regions { region.deallocate() } }

    /// The region. If there is none, it is made when `extend` is true, and nil otherwise.
    func region(_ index: Int, bytes: Int, extend: Bool) -> UnsafeMutableRawPointer? {
        while regions.count <= index {
            if !extend { return nil }
            let region = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 16)
            region.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
            regions.append(region)
        }
        return regions[index]
    }

    /// Takes locks; false if another file's locks stand in the way.
    func lock(_ range: Range<Int>, exclusive: Bool, _ held: inout HeldLocks) -> Bool {
        for index in range {
            if exclusive {
                if locks[index] - (held.shared.contains(index) ? 1 : 0) != 0 { return held.exclusive.contains(index) }
            } else if locks[index] < 0 {
                return held.exclusive.contains(index)
            }
        }
        for index in range {
            if exclusive {
                locks[index] = -1
                held.exclusive.insert(index)
            } else if held.shared.insert(index).inserted {
                locks[index] += 1
            }
        }
        return true
    }

    func unlock(_ range: Range<Int>, _ held: inout HeldLocks) {
        for index in range {
            if held.exclusive.remove(index) != nil { locks[index] = 0 }
            if held.shared.remove(index) != nil { locks[index] = max(0, locks[index] - 1) }
        }
    }
}

/// The locks of the shared memory that one file holds.
struct HeldLocks {
    var shared: Set<Int> = []
    var exclusive: Set<Int> = []
}
