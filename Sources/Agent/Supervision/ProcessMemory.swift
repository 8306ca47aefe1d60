import CLoader
import CMalloc
import Digests
import Glibc

/// The memory of this process: how much there is, and what can be returned to the system.
extension System {
    /// Memory of this process in bytes; all 0 if the system does not say.
    package struct Memory {
        /// What is resident, pages of files included.
        package let resident: Int
        /// What the process has allocated: what is resident without pages of files, which the system may take back at any time.
        let allocated: Int
    }

    package static var memory: Memory {
        guard let file = fopen("/proc/self/statm", "r") else { return Memory(resident: 0, allocated: 0) }
        defer { fclose(file) }
        var (total, resident, ofFiles) = (0, 0, 0)
        let count = withUnsafeMutablePointer(to: &total) { t in
            withUnsafeMutablePointer(to: &resident) { r in
                withUnsafeMutablePointer(to: &ofFiles) { f in withVaList([t, r, f]) { vfscanf(file, "%ld %ld %ld", $0) } }
            }
        }
        guard count == 3 else { return Memory(resident: 0, allocated: 0) }
        return Memory(resident: resident * pageSize, allocated: (resident - ofFiles) * pageSize)
    }

    /// The most that was ever resident, in bytes, pages of files included; 0 if the system does not say.
    static var peakMemory: Int {
        guard let file = fopen("/proc/self/status", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        var kibibytes = 0
        while fgets(&line, Int32(line.count), file) != nil {
            if withUnsafeMutablePointer(to: &kibibytes, { peak in withVaList([peak]) { vsscanf(line, "VmHWM: %ld", $0) } }) == 1 { break }
        }
        return kibibytes << 10
    }

    /// What the process has allocated, without what the check of a password takes for a moment (one at a time): otherwise a stranger's
    /// wrong logins would have the connections of others end.
    static var memoryForPeers: Int { max(0, memory.allocated - PasswordHash.memoryInUse) }

    private static var pageSize: Int { Int(sysconf(Int32(_SC_PAGESIZE))) }

    /// Keeps what the allocator holds beyond what is in use small: what peers send makes threads of every kind allocate by turns.
    package static func boundAllocator() {
        returnLargeBlocks()
        // By default there are eight arenas per processor, each with its own fragmentation. Two are as many as there are busy threads on a
        // gateway's processors most of the time.
        _ = mallopt(M_ARENA_MAX, 2)
    }

    /// Makes the allocator return large blocks as soon as they are freed. By default glibc raises that threshold with each large block that
    /// is freed, so that a process that once held many bodies of a megabyte never returns their memory.
    ///
    /// A block of 64 KB, which each read from a socket may use, stays below the threshold; the buffer of a message under assembly is above
    /// it, gets a mapping of its own, and leaves no hole.
    private static func returnLargeBlocks() { _ = mallopt(M_MMAP_THRESHOLD, 80 << 10) }

    /// Returns free memory between blocks in use. Takes some milliseconds per hundred megabytes.
    static func returnFreeMemory() { _ = malloc_trim(0) }

    /// Gives up the pages of the program's file and its libraries: most were only needed at the start, by the dynamic linker and the Swift runtime. What is
    /// needed again is mapped again, without reading the disk while the system still caches it.
    ///
    /// Only segments that nobody can write to are given up: their pages are the file's. (A debugger's breakpoints go with them.)
    static func returnProgramPages() {
        _ = for_each_loaded_object({ object, _, _ in
            guard let object = object?.pointee, let segments = object.segments else { return 0 }
            // The name of the program itself is empty; what the kernel maps into each process has a name that is no path.
            let initial = object.name?.pointee ?? 0
            guard initial == 0 || initial == UInt8(ascii: "/") else { return 0 }
            let page = UInt(System.pageSize)
            for segment in UnsafeBufferPointer(start: segments, count: Int(object.segment_count)) {
                guard segment.p_type == UInt32(PT_LOAD), segment.p_flags & UInt32(PF_W) == 0 else { continue }
                let address = UInt(object.address) + UInt(segment.p_vaddr)
                let first = address / page * page
                guard let start = UnsafeMutableRawPointer(bitPattern: first) else { continue }
                _ = madvise(start, Int(address + UInt(segment.p_memsz) - first), MADV_DONTNEED)
            }
            return 0
        }, nil)
    }
}
