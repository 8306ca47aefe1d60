import Glibc

/// Changes when a file is written or replaced: if it is unchanged, the file need not be read again.
struct FileStamp: Equatable, Sendable {
    private var parts: [Int64]

    /// nil if there is no such file.
    init?(_ path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        parts = [
            Int64(bitPattern: UInt64(facts.st_dev)), Int64(bitPattern: UInt64(facts.st_ino)), Int64(facts.st_size),
            // Includes the status change time: fixing a permission changes nothing else.
            Int64(facts.st_mtim.tv_sec), Int64(facts.st_mtim.tv_nsec), Int64(facts.st_ctim.tv_sec), Int64(facts.st_ctim.tv_nsec),
        ]
    }

    static func all(_ paths: [String]) -> [FileStamp?] { paths.map { FileStamp($0) } }
}
