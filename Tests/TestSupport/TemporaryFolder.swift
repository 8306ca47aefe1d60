import Glibc
import Synchronization

/// A folder that is removed, with everything in it, when the last reference to it is gone or when the tests end.
package final class TemporaryFolder: Sendable {
    /// An absolute path, short enough for a socket in the folder.
    package let path: String

    package init() throws {
        var template = Array("/tmp/nightjar-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SupportError("mkdtemp: \(String(cString: strerror(errno)))") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        Self.note(path)
    }

    deinit {
        Self.remove(path)
        Self.present.withLock { _ = $0?.remove(path) }
    }

    /// The path of a folder that stays until the tests end.
    package static func untilTheEnd() throws -> String {
        let folder = try TemporaryFolder()
        lasting.withLock { $0.append(folder) }
        return folder.path
    }

    private static let lasting = Mutex<[TemporaryFolder]>([])
    /// The folders that exist; nil before the first. They are removed at the end too, because whatever a test leaves running keeps its folder.
    private static let present = Mutex<Set<String>?>(nil)

    private static func note(_ path: String) {
        let isFirst = present.withLock { present in
            defer { present = (present ?? []).union([path]) }
            return present == nil
        }
        guard isFirst else { return }
        atexit { for path in TemporaryFolder.present.withLock({ $0 ?? [] }) { TemporaryFolder.remove(path) } }
    }

    /// The path of something in the folder.
    package func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file, and the folders above it, and returns its path.
    @discardableResult
    package func write(_ name: String, _ contents: String) throws -> String { try write(name, bytes: Array(contents.utf8)) }

    /// Writes a file, and the folders above it, and returns its path.
    @discardableResult
    package func write(_ name: String, bytes: [UInt8]) throws -> String {
        let file = path(name)
        var folder = path
        for part in name.split(separator: "/").dropLast() {
            folder += "/\(part)"
            mkdir(folder, 0o755)
        }
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SupportError("\(file): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        guard writeAll(descriptor, bytes) else { throw SupportError("\(file): \(String(cString: strerror(errno)))") }
        return file
    }

    /// Reads the bytes of a file in the folder.
    package func read(_ name: String) throws -> [UInt8] { try Self.bytes(of: path(name)) }

    /// Reads the text of a file in the folder.
    package func text(_ name: String) throws -> String { String(decoding: try read(name), as: UTF8.self) }

    package func makeFolder(_ name: String) { mkdir(path(name), 0o755) }

    package func exists(_ name: String) -> Bool { access(path(name), F_OK) == 0 }

    package func rename(_ name: String, to other: String) throws {
        guard Glibc.rename(path(name), path(other)) == 0 else { throw SupportError("rename \(name): \(String(cString: strerror(errno)))") }
    }

    /// Removes a file or a folder with everything in it.
    package func remove(_ name: String) { Self.remove(path(name)) }

    /// Copies a file from anywhere into the folder.
    package func copy(_ file: String, to name: String) throws { try write(name, bytes: Self.bytes(of: file)) }

    /// Reads the bytes of a file.
    package static func bytes(of file: String) throws -> [UInt8] {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SupportError("\(file): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        while let part = readSome(descriptor), !part.isEmpty { bytes += part }
        return bytes
    }

    private static func remove(_ path: String) {
        var facts = stat()
        guard lstat(path, &facts) == 0 else { return }
        guard facts.st_mode & S_IFMT == S_IFDIR, let folder = opendir(path) else {
            unlink(path)
            return
        }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { remove("\(path)/\(name)") }
        }
        closedir(folder)
        rmdir(path)
    }
}

/// Writes everything; false if the other end is gone or the disk is full.
func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { buffer in
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}

/// Reads what is there; empty at the end, nil after an error.
func readSome(_ descriptor: Int32, upTo limit: Int = 65_536) -> [UInt8]? {
    var failed = false
    let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
        while true {
            let got = Glibc.read(descriptor, buffer.baseAddress, limit)
            if got < 0, errno == EINTR { continue }
            failed = got < 0
            count = max(0, got)
            return
        }
    }
    return failed ? nil : bytes
}

extension TemporaryFolder {
    /// Whether the system has a program.
    package static func canRun(_ path: String) -> Bool { access(path, X_OK) == 0 }
}
