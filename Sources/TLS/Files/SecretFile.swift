import Environment
import Glibc

/// Files with secrets that an operator asked for.
package enum SecretFile {
    /// Reads a file that nobody but its owner can, who is this user or root.
    package static func read(_ path: String) throws(TLSFileError) -> SecretBytes { try TLSFile.read(path, .secret) }

    /// Writes a file that its owner only can read, whole or not at all.
    ///
    /// - Throws: `exists` where it is there already and may not be replaced.
    package static func write(_ path: String, _ bytes: SecretBytes, replaces: Bool) throws(TLSFileError) {
        if !replaces {
            var facts = stat()
            guard lstat(path, &facts) != 0 else {
                throw TLSFileError(.exists, path: path, reason: "is there already", advice: "choose another name, or add --replace")
            }
        }
        try put(path, bytes)
    }

    /// Puts a secret in its place; commands and the agent may do so at the same time.
    ///
    /// - Parameter owner: to whom root gives it; nil: it stays this user's.
    static func put(_ path: String, _ bytes: SecretBytes, owner: uid_t? = nil) throws(TLSFileError) {
        do throws(FileError) {
            try bytes.withBytes { buffer throws(FileError) in try DurableFile.write(path, buffer, writers: .several, owner: owner) }
        } catch {
            throw TLSFileError(unwritable: error)
        }
    }
}
