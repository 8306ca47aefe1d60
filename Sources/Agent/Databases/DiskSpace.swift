import Glibc

/// The room of a file system.
package struct DiskSpace: Sendable {
    /// In bytes; what only root may use is not counted.
    package var free: UInt64
    package var total: UInt64
    /// Tells file systems apart.
    var fileSystem: UInt64

    /// `disk_attention_percent`, `disk_attention_bytes`: with less than both free, the disk is nearly full.
    private static let scarce = (percent: UInt64(10), bytes: UInt64(1) << 30)

    package var isScarce: Bool { free < Self.scarce.bytes && free * 100 < total * Self.scarce.percent }

    package init?(of folder: String) {
        var facts = statvfs()
        var file = stat()
        guard statvfs(folder, &facts) == 0, stat(folder, &file) == 0 else { return nil }
        let block = UInt64(facts.f_frsize)
        free = UInt64(facts.f_bavail).multipliedReportingOverflow(by: block).partialValue
        total = UInt64(facts.f_blocks).multipliedReportingOverflow(by: block).partialValue
        fileSystem = UInt64(file.st_dev)
        // File systems without a size of their own.
        if total == 0 { return nil }
    }
}
