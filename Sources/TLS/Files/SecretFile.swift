import Environment
import Glibc

/// Files with secrets, for commands that an operator runs.
package enum SecretFile {
    /// Reads a file that only its owner can read, who must be this user or root.
    package static func read(_ path: String) throws(TLSFileError) -> SecretBytes { try TLSFile.read(path, .secret) }

    /// A user and the user's group.
    package struct Reader: Sendable, Equatable {
        var user: uid_t
        var group: gid_t

        /// This process.
        static var current: Reader { Reader(user: geteuid(), group: getegid()) }

        /// The owner of a folder; this process where there is none.
        package init(owning folder: String) {
            var facts = stat()
            self = stat(folder, &facts) == 0 ? Reader(user: facts.st_uid, group: facts.st_gid) : .current
        }

        init(user: uid_t, group: gid_t) { (self.user, self.group) = (user, group) }
    }

    /// Why users other than its reader can read a file with a secret, in the words in which ``read(_:)`` refuses one; nil if they cannot, because of its
    /// permissions or of a folder above it, or there is no such file. The reader's own group may read it.
    package static func exposure(_ path: String, reader: Reader) -> TLSFileError? {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, let error = TLSFile.looseness(facts, .secret, path, reader: reader) else { return nil }
        return isShutAway(path, from: reader) ? nil : error
    }

    /// Whether a folder above the file lets in only root, the reader and the reader's group, as `/etc/nightjar` of the package does.
    private static func isShutAway(_ path: String, from reader: Reader) -> Bool {
        guard let real = realpath(path, nil) else { return false }
        defer { free(real) }
        var folder = String(cString: real)
        while folder != "/", folder != "." {
            folder = DurableFile.parent(of: folder)
            var facts = stat()
            guard stat(folder, &facts) == 0 else { continue }
            let isOwners = facts.st_uid == 0 || facts.st_uid == reader.user
            if isOwners, facts.st_mode & 0o001 == 0, facts.st_mode & 0o010 == 0 || facts.st_gid == reader.group { return true }
        }
        return false
    }

    /// Writes a file that only its owner can read, atomically.
    ///
    /// - Throws: `exists` if it already exists and must not be replaced.
    package static func write(_ path: String, _ bytes: SecretBytes, replaces: Bool) throws(TLSFileError) {
        if !replaces {
            var facts = stat()
            guard lstat(path, &facts) != 0 else {
                throw TLSFileError(.exists, path: path, reason: "is there already", advice: "choose another name, or add --replace")
            }
        }
        try put(path, bytes)
    }

    /// Moves a secret into place; commands and the agent may do so concurrently.
    ///
    /// - Parameter owner: the user to whom root gives it; nil to keep it as this user's.
    static func put(_ path: String, _ bytes: SecretBytes, owner: uid_t? = nil) throws(TLSFileError) {
        do throws(FileError) {
            try bytes.withBytes { buffer throws(FileError) in try DurableFile.write(path, buffer, writers: .several, owner: owner) }
        } catch {
            throw TLSFileError(unwritable: error)
        }
    }
}
