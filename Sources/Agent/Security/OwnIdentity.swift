import AgentConfiguration
import Environment
import Glibc
import Synchronization
import TLS

/// The identity that the agent makes for itself, over its starts: its pin is noted outside of the key store, so that a start notices that the
/// key store was lost. `DATA/identity.noted` has the pin, or ``nothing``.
final class OwnIdentity: Sendable {
    /// Noted at a first start, when there is no identity yet: a later one without any then is no loss.
    private static let nothing = "none"
    /// The longest text that can be a note (bytes).
    private static let maximumNote = 256

    let memory = AnonymousMemory()
    private let dataFolder: String
    private let path: String
    private let noted = Mutex<String?>(nil)

    init(dataFolder: String) {
        self.dataFolder = dataFolder
        path = "\(dataFolder)/identity.noted"
    }

    /// Finds out what there was before; called at the start, while no database has been made.
    func lookForEarlier(_ databases: [DatabaseSettings]) {
        let text = read()
        noted.withLock { $0 = text }
        let hasData = databases.contains { database in
            let folder = "\(dataFolder)/\(database.name.value)\(DatabaseFolders.suffix)"
            return DatabaseFolders.exists(folder) || access(DatabaseFolders.sign(folder), F_OK) == 0
        }
        switch text {
        case nil: memory.expect(hasData ? .unknown : .none)
        case Self.nothing: memory.expect(.none)
        case .some(let pin): memory.expect(.pinned(pin))
        }
        if text == nil, !hasData { write(Self.nothing) }
    }

    /// Notes the pin if it has changed.
    func note() { write(memory.identity?.leaf.pin ?? noted.withLock { $0 } ?? Self.nothing) }

    private func write(_ text: String) {
        noted.withLock { noted in
            guard noted != text else { return }
            // If this fails, the next check tries again; problems with the disk are reported elsewhere.
            do throws(FileError) {
                try DurableFile.write(path, Array("\(text)\n".utf8), writers: .thisProcess)
                noted = text
            } catch {}
        }
    }

    /// nil if nothing legible is noted.
    private func read() -> String? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.maximumNote)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count > 0 else { return nil }
        let text = String(decoding: bytes[..<count].prefix { $0 > 0x20 && $0 < 0x7F }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }
}
