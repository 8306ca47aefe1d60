import Agent
import Environment
import Glibc
import NIOCore

/// A file or standard output, written in pieces. A file appears under its name once it is complete.
struct OutputFile: Sendable {
    let descriptor: Int32
    private let path: String?
    private let temporary: String?

    /// - Parameters:
    ///   - path: nil or "-" for standard output.
    ///   - isPrivate: whether only this user may read the file.
    init(_ path: String?, isPrivate: Bool = false) throws {
        guard let path, path != "-" else {
            descriptor = 1
            self.path = nil
            temporary = nil
            return
        }
        self.path = path
        var facts = stat()
        // Pipes and devices are written directly.
        let isDirect = stat(path, &facts) == 0 && facts.st_mode & S_IFMT != S_IFREG
        let name = isDirect ? path : "\(path).\(getpid()).part"
        temporary = isDirect ? nil : name
        if isDirect {
            descriptor = try Self.open(path, facts.st_mode)
        } else {
            // Left behind by a power failure, or put there by somebody else: such a file would keep its owner and permissions.
            if isPrivate { unlink(name) }
            do throws(FileError) {
                descriptor = try RegularFile.open(
                    name, O_WRONLY | O_CREAT | (isPrivate ? O_EXCL | O_NOFOLLOW : O_TRUNC), permissions: isPrivate ? 0o600 : 0o644)
            } catch {
                throw AgentError(.failed, "\(path): \(error.isMissing ? "there is no folder \(DurableFile.parent(of: path))" : error.reason)")
            }
        }
    }

    private static func open(_ path: String, _ mode: mode_t) throws -> Int32 {
        guard mode & S_IFMT != S_IFDIR else { throw AgentError(.failed, "\(path) is a folder; name a file in it") }
        // Non-blocking: opening a pipe without a reader would block forever.
        let descriptor = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else {
            let number = errno
            let isUnread = number == ENXIO && mode & S_IFMT == S_IFIFO
            throw AgentError(
                .failed, isUnread ? "\(path) is a pipe that nobody reads: start its reader first, or name a file" : "\(path): \(String(cString: strerror(number)))")
        }
        // Writes may block from here on.
        _ = fcntl(descriptor, F_SETFL, O_WRONLY)
        return descriptor
    }

    func write(_ buffer: ByteBuffer) throws {
        try buffer.withUnsafeReadableBytes { try write($0) }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws {
        do { try Output.writeAll(descriptor, bytes) } catch let error as AgentError {
            throw path.map { AgentError(error.kind, "\($0): \(error)") } ?? error
        }
    }

    /// Moves a complete file durably into place.
    ///
    /// - Parameter syncsFolder: false for one of many files, after the last of which ``sync(folder:)`` is called.
    func finish(syncsFolder: Bool = true) throws {
        guard let path else { return }
        guard let temporary else {
            guard close(descriptor) == 0 else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
            return
        }
        do { try DurableFile.place(descriptor, temporary, as: path) } catch { throw AgentError(.failed, "\(error)") }
        if syncsFolder { try Self.sync(folder: DurableFile.parent(of: path)) }
    }

    /// Makes the files that were moved into a folder durable.
    static func sync(folder: String) throws {
        do throws(FileError) { try DurableFile.syncFolder(folder) } catch {
            // A folder that may be written but not read cannot be synced: the files are complete, and no more can be done.
            guard error.number == EACCES else { throw AgentError(.failed, "\(error)") }
        }
    }

    /// Removes the unfinished file.
    func abandon() {
        if let temporary { unlink(temporary) }
    }
}
