import Glibc

/// The files of this machine.
package struct SystemFiles: FileSystem {
    package init() {}

    package func open(_ path: String, _ mode: FileMode) throws(FileError) -> any OpenFile {
        try SystemFile(path, mode)
    }

    package func rename(_ path: String, to newPath: String) throws(FileError) {
        guard Glibc.rename(path, newPath) == 0 else { throw .last(newPath) }
    }

    package func remove(_ path: String) throws(FileError) {
        guard Glibc.remove(path) == 0 else { throw .last(path) }
    }

    package func makeFolder(_ path: String) throws(FileError) {
        guard mkdir(path, 0o700) == 0 else { throw .last(path) }
    }

    package func names(in folder: String) throws(FileError) -> [String] {
        guard let directory = opendir(folder) else { throw .last(folder) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }

    package func facts(_ path: String) throws(FileError) -> FileFacts {
        var info = stat()
        guard stat(path, &info) == 0 else { throw .last(path) }
        return FileFacts(
            size: UInt64(max(0, info.st_size)), modified: Int64(info.st_mtim.tv_sec), isFolder: info.st_mode & S_IFMT == S_IFDIR,
            identity: UInt64(info.st_ino))
    }

    package func touch(_ path: String) throws(FileError) {
        guard utimensat(AT_FDCWD, path, nil, 0) == 0 else { throw .last(path) }
    }

    package func syncFolder(_ path: String) throws(FileError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .last(path) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .last(path) }
    }

    package func lock(_ path: String) throws(FileError) -> FileLockAttempt {
        try SystemFileLock.take(path)
    }
}

extension FileError {
    /// The error for the current `errno`.
    fileprivate static func last(_ path: String) -> FileError { FileError(path: path, number: errno) }
}

private final class SystemFile: OpenFile {
    private let path: String
    private let descriptor: Int32

    init(_ path: String, _ mode: FileMode) throws(FileError) {
        self.path = path
        descriptor =
            switch mode {
            case .read: try RegularFile.open(path, O_RDONLY)
            case .create: try RegularFile.open(path, O_WRONLY | O_CREAT | O_EXCL)
            }
    }

    deinit { Glibc.close(descriptor) }

    func size() throws(FileError) -> UInt64 {
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { throw .last(path) }
        return UInt64(max(0, info.st_size))
    }

    func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let got = pread(
                descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled, off_t(offset) + off_t(filled))
            if got < 0 && errno == EINTR { continue }
            guard got >= 0 else { throw .last(path) }
            if got == 0 { break }
            filled += got
        }
        return filled
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws(FileError) {
        var offset = 0
        while offset < bytes.count {
            let written = Glibc.write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
            if written < 0 && errno == EINTR { continue }
            guard written >= 0 else { throw .last(path) }
            offset += written
        }
    }

    func sync() throws(FileError) {
        guard fsync(descriptor) == 0 else { throw .last(path) }
    }
}

/// A lock held by the kernel, which releases it when the process ends, however it ends.
private final class SystemFileLock: FileLock {
    private let descriptor: Int32

    private init(_ descriptor: Int32) { self.descriptor = descriptor }

    static func take(_ path: String) throws(FileError) -> FileLockAttempt {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .last(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error = FileError.last(path)
            let owner = owner(descriptor)
            Glibc.close(descriptor)
            if error.number == EWOULDBLOCK { return .held(by: owner) }
            throw error
        }
        // The process id is only for the error message of the next one that tries.
        let text = "\(getpid())\n"
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.utf8.count, 0)
        return .taken(SystemFileLock(descriptor))
    }

    func release() {
        _ = ftruncate(descriptor, 0)
        _ = flock(descriptor, LOCK_UN)
    }

    deinit { Glibc.close(descriptor) }

    private static func owner(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        return Int32(String(decoding: bytes[..<count].prefix { $0 >= 0x30 && $0 <= 0x39 }, as: UTF8.self))
    }
}
