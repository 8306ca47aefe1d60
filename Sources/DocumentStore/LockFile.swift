import Glibc

/// The file that says which process owns a database folder. The kernel gives the lock
/// back when the process ends, however it ends.
final class LockFile: Sendable {
    private let descriptor: Int32

    init(folder: String) throws(StoreError) {
        let path = folder + "/lock"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Files.failure(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let number = errno
            let owner = Self.owner(descriptor)
            Glibc.close(descriptor)
            if number == EWOULDBLOCK { throw .locked(folder: folder, pid: owner) }
            throw .folder(path: path, errno: number, detail: Files.text(number))
        }
        // The number is only for the error message of the next one who comes.
        let text = "\(getpid())\n"
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.utf8.count, 0)
        self.descriptor = descriptor
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
