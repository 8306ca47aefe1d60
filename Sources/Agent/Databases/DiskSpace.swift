import Glibc

/// The space on a file system.
package struct DiskSpace: Sendable {
    /// In bytes, without the part reserved for root.
    package var free: UInt64
    package var total: UInt64
    /// Identifies the file system.
    var fileSystem: UInt64

    /// `disk_attention_percent`, `disk_attention_bytes`: the disk is nearly full when less than both is free.
    private static let scarce = (percent: UInt64(10), bytes: UInt64(1) << 30)

    package var isScarce: Bool { free < Self.scarce.bytes && free * 100 < total * Self.scarce.percent }

    /// Whether less than 1 MiB is free, with which nothing is retried.
    package var isFull: Bool { free < 1 << 20 }

    package init?(of folder: String) {
        var facts = statvfs()
        var file = stat()
        guard statvfs(folder, &facts) == 0, stat(folder, &file) == 0 else { return nil }
        let block = UInt64(facts.f_frsize)
        free = UInt64(facts.f_bavail).multipliedReportingOverflow(by: block).partialValue
        total = UInt64(facts.f_blocks).multipliedReportingOverflow(by: block).partialValue
        fileSystem = UInt64(file.st_dev)
        // Some file systems have no size.
        if total == 0 { return nil }
    }
}
