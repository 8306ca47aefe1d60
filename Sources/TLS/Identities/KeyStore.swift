import Environment
import Glibc

/// An agent's identities: `DATA/identities/LABEL.pem`, each with its certificates and key, readable only for the agent's user. Files are created and
/// replaced atomically; a file that others can read is refused.
///
/// Blocks while it reads and writes, so it must not be used on event loops.
package final class KeyStore: Sendable {
    /// `DATA/identities`
    package let folder: String
    private let dataFolder: String
    private let time: any TimeSource

    package init(dataFolder: String, time: any TimeSource) {
        folder = "\(dataFolder)/identities"
        self.dataFolder = dataFolder
        self.time = time
    }

    /// Seconds since 1970.
    var now: Int64 { time.wallSeconds() }

    /// If root runs a command on the data of an agent that runs as a different user: that user, who owns everything here. Otherwise nil.
    var agentUser: uid_t? {
        var facts = stat()
        guard geteuid() == 0, stat(dataFolder, &facts) == 0, facts.st_uid != 0 else { return nil }
        return facts.st_uid
    }

    /// The file of an identity.
    package func path(of label: IdentityLabel) -> String { "\(folder)/\(label.text).pem" }

    // MARK: - Reading

    /// The entry for a file name that ends in `.pem`.
    package struct Entry: Sendable {
        package var label: IdentityLabel
        package var identity: Result<Identity, TLSFileError>

        package var error: TLSFileError? { if case .failure(let error) = identity { error } else { nil } }
    }

    /// - Throws: `missing`, which says how to create one.
    package func load(_ label: IdentityLabel) throws(TLSFileError) -> Identity {
        let path = path(of: label)
        let bytes: SecretBytes
        do throws(TLSFileError) {
            if try !checkFolder() { throw TLSFile.failure(path, ENOENT) }
            bytes = try TLSFile.read(path, .stored, owner: agentUser)
        } catch where error.kind == .missing {
            let others = ((try? list()) ?? []).map { "\($0.label)" }
            throw TLSFileError(
                .missing, path: path,
                reason: "there is no identity \"\(label)\" in the key store, which \(others.isEmpty ? "is empty" : "has \(others.joined(separator: ", "))")",
                advice: label == .anonymous
                    ? "the agent makes it when it starts with a listener that names no identity"
                    : "make it with \"nightjar identity create \(label)\" or \"nightjar identity import \(label) FILE\", or name another one")
        }
        return try IdentityText.parse(bytes, passphrase: nil, path: path)
    }

    /// All identities ordered by label, including invalid ones.
    package func list() throws(TLSFileError) -> [Entry] {
        guard try checkFolder() else { return [] }
        guard let directory = opendir(folder) else { throw TLSFile.failure(folder, errno) }
        defer { closedir(directory) }
        var labels: [IdentityLabel] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name.hasSuffix(".pem"), let label = try? IdentityLabel(String(name.dropLast(4))) else { continue }
            labels.append(label)
        }
        return labels.sorted { $0.text < $1.text }.map { label in
            Entry(label: label, identity: Result { () throws(TLSFileError) in try load(label) })
        }
    }

    // MARK: - Writing

    /// Creates a key and a self-signed certificate.
    ///
    /// - Parameters:
    ///   - replaces: whether an identity with this label may already exist. Renewing a self-signed one keeps its key, if that is of the requested
    ///     kind, so that peers' pins stay valid.
    ///   - newKey: creates a new key nevertheless.
    package func create(
        _ label: IdentityLabel, _ request: IdentityRequest, replaces: Bool = false, newKey: Bool = false
    ) throws(TLSFileError) -> Identity {
        try checkNotReserved(label)
        // An unreadable one has no key to keep.
        let kept = replaces && !newKey ? (try? load(label)).flatMap { $0.keyToKeep(as: request.key) } : nil
        // Before locking, because an RSA key takes seconds on a small machine.
        let identity = try SelfSigning.make(request, label: label, now: now, key: kept)
        try add(identity, as: label, replaces: replaces)
        return identity
    }

    /// Stores an identity.
    package func add(_ identity: Identity, as label: IdentityLabel, replaces: Bool = false) throws(TLSFileError) {
        try checkNotReserved(label)
        let text = try IdentityText.make(identity, path: path(of: label))
        try locked { () throws(TLSFileError) in
            if !replaces, access(path(of: label), F_OK) == 0 {
                throw TLSFileError(
                    .exists, path: path(of: label), reason: "there is an identity \"\(label)\" already",
                    advice: "choose another label, or replace it with --replace")
            }
            try SecretFile.put(path(of: label), text, owner: agentUser)
        }
    }

    package func remove(_ label: IdentityLabel) throws(TLSFileError) {
        let missing = TLSFileError(.missing, path: path(of: label), reason: "there is no identity \"\(label)\" in the key store")
        guard try checkFolder() else { throw missing }
        do throws(TLSFileError) {
            try locked { () throws(TLSFileError) in
                do throws(FileError) { try DurableFile.remove(path(of: label)) } catch {
                    throw error.number == ENOENT ? TLSFile.failure(error.path, ENOENT) : TLSFileError(unwritable: error)
                }
            }
        } catch where error.kind == .missing { throw missing }
    }

    // MARK: - Changing the key

    /// A file next to an identity whose key is being changed.
    package enum Companion: String, Sendable {
        /// Created in advance, so that peers can pin its key before it is in force.
        case next
        /// The one that was in force before.
        case before

        fileprivate var other: Companion { self == .next ? .before : .next }
    }

    /// The name of that file: `LABEL.next`.
    package static func label(_ companion: Companion, of label: IdentityLabel) throws(TLSFileError) -> IdentityLabel {
        try IdentityLabel("\(label.text).\(companion.rawValue)")
    }

    /// Replaces an identity with a companion; the replaced one becomes the other companion, so that it can be restored.
    package func exchange(_ label: IdentityLabel, with companion: Companion) throws(TLSFileError) -> Identity {
        let wanted = try Self.label(companion, of: label)
        let identity = try load(wanted)
        if access(path(of: label), F_OK) != 0 { _ = try load(label) }
        let kept = path(of: try Self.label(companion.other, of: label))
        try locked { () throws(TLSFileError) in
            // The identity's own file always exists, since power may fail at any moment.
            if unlink(kept) != 0, errno != ENOENT { throw TLSFileError(unwritable: FileError(path: kept, number: errno)) }
            guard link(path(of: label), kept) == 0, rename(path(of: wanted), path(of: label)) == 0 else {
                throw TLSFileError(unwritable: FileError(path: path(of: label), number: errno))
            }
            do throws(FileError) { try DurableFile.syncFolder(folder) } catch { throw TLSFileError(unwritable: error) }
        }
        return identity
    }

    private func checkNotReserved(_ label: IdentityLabel) throws(TLSFileError) {
        guard label == .anonymous else { return }
        throw TLSFileError(
            .invalid, path: label.text, reason: "this label belongs to the identity that the agent makes for itself", advice: "choose another one")
    }

    // MARK: - The folder

    /// - Returns: false if it does not exist yet.
    private func checkFolder() throws(TLSFileError) -> Bool {
        var facts = stat()
        guard stat(folder, &facts) == 0 else {
            if errno == ENOENT { return false }
            throw TLSFile.failure(folder, errno)
        }
        guard facts.st_mode & S_IFMT == S_IFDIR else {
            throw TLSFileError(.notAFile, path: folder, reason: "is \(TLSFile.kind(facts.st_mode))", advice: "the key store is a folder")
        }
        guard facts.st_uid == geteuid() || facts.st_uid == 0 || facts.st_uid == agentUser else {
            throw TLSFileError(
                .foreignOwner, path: folder, reason: "the key store belongs to another user (uid \(facts.st_uid))",
                advice: "run: chown -R \(geteuid()) \(TLSFile.shellQuoted(folder))")
        }
        guard facts.st_mode & 0o077 == 0 else {
            throw TLSFileError(
                .loosePermissions, path: folder, reason: "other users can access the key store (permissions \(TLSFile.octal(facts.st_mode)), and 0700 is expected)",
                advice: "run: chmod 700 \(TLSFile.shellQuoted(folder))")
        }
        return true
    }

    /// Runs with the folder, which is created if needed, locked against other processes.
    func locked<R>(_ body: () throws(TLSFileError) -> R) throws(TLSFileError) -> R {
        if try !checkFolder() {
            try makeFolders()
            _ = try checkFolder()
        }
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw TLSFile.failure(folder, errno) }
        defer { close(descriptor) }
        // Other commands and the agent hold it while they write one file.
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { throw TLSFileError(unwritable: FileError(path: folder, number: errno)) }
        }
        return try body()
    }

    /// Creates the folder and its parents: identities may be created before the agent runs for the first time.
    private func makeFolders() throws(TLSFileError) {
        var built = folder.hasPrefix("/") ? "" : "."
        defer { if let agentUser { chown(folder, agentUser, gid_t.max) } }
        for part in folder.split(separator: "/") {
            let parent = built
            built += "/\(part)"
            if mkdir(built, 0o700) == 0 {
                do throws(FileError) { try DurableFile.syncFolder(parent.isEmpty ? "/" : parent) } catch {
                    throw TLSFileError(unwritable: error)
                }
            } else if errno != EEXIST {
                throw TLSFileError(unwritable: FileError(path: built, number: errno))
            }
        }
    }
}
