import Glibc

/// Files with secrets that an operator asked for.
public enum SecretFile {
    /// Writes a file that its owner only can read, whole or not at all.
    ///
    /// - Throws: `exists` where it is there already and may not be replaced.
    public static func write(_ path: String, _ bytes: SecretBytes, replaces: Bool) throws(TLSFileError) {
        if !replaces {
            var facts = stat()
            guard lstat(path, &facts) != 0 else {
                throw TLSFileError(.exists, path: path, reason: "is there already", advice: "choose another name, or add --replace")
            }
        }
        try DurableFile.write(path, bytes)
    }
}
