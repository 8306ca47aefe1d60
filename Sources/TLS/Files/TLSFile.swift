import Glibc

/// Reads files with certificates and keys: of limited size, never blocking on a pipe, and checking who else may read them.
enum TLSFile {
    /// The contents of a file, which determine who may read it.
    enum Content {
        /// Certificates: readable for everybody.
        case certificates
        /// A private key or a passphrase: readable only for its owner, who is this user or root; if it is root, one group may also read it, like
        /// Debian's `ssl-cert`. The same rule as in PostgreSQL.
        case secret
        /// A file in the key store: readable only for its owner, who is this user (or root).
        case stored
    }

    /// - Parameter owner: a further user who may own secrets, besides this one and root.
    static func read(_ path: String, _ content: Content, owner: uid_t? = nil) throws(TLSFileError) -> SecretBytes {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw TLSFileError(.invalid, path: path, reason: "is not a path")
        }
        // O_NONBLOCK: opening a pipe without a writer would block forever.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw failure(path, errno) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw failure(path, errno) }
        guard facts.st_mode & S_IFMT == S_IFREG else {
            throw TLSFileError(.notAFile, path: path, reason: "is \(kind(facts.st_mode))", advice: "a regular file is expected")
        }
        try checkAccess(facts, content, owner, path)
        guard facts.st_size <= TLSLimits.fileBytes else { throw tooLarge(path) }
        // Reading one byte more than its size shows whether it has grown meanwhile.
        return try SecretBytes(capacity: Int(facts.st_size) + 1) { room throws(TLSFileError) in
            var filled = 0
            while filled < room.count {
                let count = Glibc.read(descriptor, room.baseAddress?.advanced(by: filled), room.count - filled)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw failure(path, errno) }
                if count == 0 { return filled }
                filled += count
            }
            throw TLSFileError(.unreadable, path: path, reason: "grew while it was read", advice: "try again when it is complete")
        }
    }

    /// Checks who may read and change it.
    static func checkAccess(_ facts: stat, _ content: Content, _ owner: uid_t?, _ path: String) throws(TLSFileError) {
        if case .certificates = content { return }
        let user = geteuid()
        guard facts.st_uid == user || facts.st_uid == 0 || facts.st_uid == owner else {
            throw TLSFileError(
                .foreignOwner, path: path, reason: "a secret that belongs to another user (uid \(facts.st_uid))",
                advice: "run: chown \(user) \(shellQuoted(path))")
        }
        if let error = looseness(facts, content, path) { throw error }
    }

    /// What is wrong with a secret's permissions; nil for nothing. What is advised leaves it readable for its reader: an agent that does not run as root
    /// could not read a file of root's any more after `chmod 600` alone.
    ///
    /// - Parameter reader: who reads it, whose group may read it too; nil for this process, and no group.
    static func looseness(_ facts: stat, _ content: Content, _ path: String, reader: SecretFile.Reader? = nil) -> TLSFileError? {
        var (forbidden, expected): (mode_t, String) = (0o077, "0600")
        if case .secret = content, facts.st_uid == 0 || facts.st_gid == reader?.group { (forbidden, expected) = (0o037, "0600 or 0640") }
        guard facts.st_mode & forbidden != 0 else { return nil }
        let (own, quoted) = (reader ?? .current, shellQuoted(path))
        let command =
            if facts.st_uid == own.user {
                "chmod 600 \(quoted)"
            } else if case .secret = content, facts.st_uid == 0 {
                "chgrp \(own.group) \(quoted) && chmod 640 \(quoted)"
            } else {
                "chown \(own.user) \(quoted) && chmod 600 \(quoted)"
            }
        return TLSFileError(
            .loosePermissions, path: path,
            reason: "other users can access this secret (permissions \(octal(facts.st_mode)), and \(expected) is expected)", advice: "run: \(command)")
    }

    static func octal(_ mode: mode_t) -> String { "0" + String(mode & 0o7777, radix: 8) }

    static func tooLarge(_ path: String) -> TLSFileError {
        TLSFileError(.tooLarge, path: path, reason: "is larger than fileBytes = \(TLSLimits.fileBytes) bytes", advice: "is this the right file?")
    }

    static func failure(_ path: String, _ number: Int32) -> TLSFileError {
        let reason = String(cString: strerror(number))
        switch number {
        case ENOENT, ENOTDIR: return TLSFileError(.missing, path: path, reason: "there is no such file")
        case EACCES, EPERM: return TLSFileError(.unreadable, path: path, reason: reason, advice: "this process runs as uid \(geteuid())")
        case ENXIO: return TLSFileError(.notAFile, path: path, reason: "is a socket or a device", advice: "a regular file is expected")
        default: return TLSFileError(.unreadable, path: path, reason: reason)
        }
    }

    /// Describes something that is not a regular file.
    static func kind(_ mode: mode_t) -> String {
        switch mode & S_IFMT {
        case S_IFDIR: "a folder"
        case S_IFIFO: "a pipe"
        case S_IFSOCK: "a socket"
        case S_IFREG: "a file"
        default: "a device"
        }
    }

    /// Quoted for a shell.
    static func shellQuoted(_ path: String) -> String {
        let plain = path.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte & 0xDF) || "/._-+@:,".utf8.contains(byte)
        }
        if plain { return path }
        var quoted = "'"
        for character in path { quoted += character == "'" ? "'\\''" : String(character) }
        return quoted + "'"
    }
}
