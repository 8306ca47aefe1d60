import Environment
import Glibc

/// Files with secrets, for commands that an operator runs.
package enum SecretFile {
    /// Reads a file that only its owner can read, who must be this user or root.
    package static func read(_ path: String) throws(TLSFileError) -> SecretBytes { try TLSFile.read(path, .secret) }

    /// Why other users can read a file with a secret, in the words in which ``read(_:)`` refuses one; nil if they cannot, or there is no such file.
    package static func exposure(_ path: String) -> TLSFileError? {
        var facts = stat()
        guard stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else { return nil }
        return TLSFile.looseness(facts, .secret, path)
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
