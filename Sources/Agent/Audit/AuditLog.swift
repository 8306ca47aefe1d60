import Documents
import Environment
import Glibc
import Logging
import Synchronization

/// Who did what, and when: actions over the admin API, failed logins, plugin changes, purges. One JSON object per line in `DATA/audit.log`, readable
/// by the agent's user only.
package final class AuditLog: Sendable {
    /// `audit_bytes`: size at which the file is rotated to `audit.log.1`, and so on.
    static let maximumBytes = 1 << 20
    /// `audit_files`: how many files are kept, including the present one.
    static let maximumFiles = 5
    /// `audit_folding`: seconds in which repetitions are folded into one line: somebody who guesses passwords must not push other entries out.
    private static let foldingSeconds: Int64 = 60
    /// `audit_causes`: how many different entries are remembered for folding.
    private static let maximumCauses = 1_000
    /// `audit_documents`: how many requests for documents get a line of their own, with the document's id, before further ones of the same kind are folded.
    private static let maximumDocuments = 10
    /// `audit_id_bytes`: limit for the id of a document, or the digest of a blob.
    private static let maximumIDBytes = 128
    /// `audit_text_bytes`: limit for a name or path chosen by a stranger.
    private static let maximumTextBytes = 300

    /// What is recorded.
    struct Entry: Sendable, Hashable {
        /// The name of a token or user, or a part of the agent.
        var who: String
        /// An address, or `admin.sock`.
        var from: String
        /// `POST /api/reload`, `login`, `plugin reloaded`.
        var action: String
        /// What it was done to, unless the action says so.
        var target: String = ""
        /// `200`, `refused`.
        var outcome: String
    }

    private struct State {
        var descriptor: Int32 = -1
        var bytes = 0
        var isFailing = false
        var folded: [Entry: (at: Int64, count: Int, documents: Int)] = [:]
    }

    private let path: String
    private let time: any TimeSource
    private let logger: Logger
    private let state = Mutex(State())

    init(dataFolder: String, time: any TimeSource, logger: Logger) {
        path = Self.path(dataFolder)
        self.time = time
        self.logger = logger
    }

    deinit {
        let descriptor = state.withLock { $0.descriptor }
        if descriptor >= 0 { close(descriptor) }
    }

    static func path(_ dataFolder: String) -> String { "\(dataFolder)/audit.log" }

    /// Records an entry.
    ///
    /// - Parameters:
    ///   - isFolded: repetitions within a minute are only counted; the next line says how many there were.
    ///   - document: the document or blob that it was done to. Of a folded entry, the first few within a minute get a line each.
    func note(_ entry: Entry, isFolded: Bool = false, document: String? = nil) {
        let now = time.wallSeconds()
        let failure = state.withLock { state -> String? in
            var repeated = 0
            if isFolded {
                if let known = state.folded[entry], now - known.at < Self.foldingSeconds, now >= known.at {
                    guard document != nil, known.documents < Self.maximumDocuments else {
                        state.folded[entry]?.count += 1
                        return nil
                    }
                    state.folded[entry]?.documents += 1
                } else {
                    repeated = state.folded[entry]?.count ?? 0
                    if state.folded.count >= Self.maximumCauses { state.folded.removeAll() }
                    state.folded[entry] = (now, 0, 1)
                }
            }
            let failure = write(Self.line(entry, document, repeated, now), &state)
            defer { state.isFailing = failure != nil }
            return state.isFailing ? nil : failure
        }
        // Reported once: the state of the disk is reported elsewhere.
        if let failure { logger.error("the audit log cannot be written: \(path): \(failure)") }
    }

    private static func line(_ entry: Entry, _ document: String?, _ repeated: Int, _ now: Int64) -> [UInt8] {
        func text(_ text: String, _ limit: Int = Self.maximumTextBytes) -> JSONValue {
            .string(text.utf8.count <= limit ? text : String(decoding: text.utf8.prefix(limit), as: UTF8.self) + "…")
        }
        var fields: [JSONObject.Member] = [
            .init(key: "time", value: .string(Timestamp.format(now))), .init(key: "who", value: text(entry.who)), .init(key: "from", value: text(entry.from)),
            .init(key: "action", value: text(entry.action)), .init(key: "target", value: text(entry.target)), .init(key: "outcome", value: text(entry.outcome)),
        ]
        if let document { fields.append(.init(key: "document", value: text(document, maximumIDBytes))) }
        if repeated > 0 { fields.append(.init(key: "repeated", value: .int(Int64(repeated)))) }
        return JSONValue.object(JSONObject(fields)).serialize() + [UInt8(ascii: "\n")]
    }

    /// - Returns: why it failed.
    private func write(_ line: [UInt8], _ state: inout State) -> String? {
        if state.bytes + line.count > Self.maximumBytes { rotate(&state) }
        if state.descriptor < 0 {
            do { state.descriptor = try RegularFile.open(path, O_WRONLY | O_CREAT | O_APPEND) } catch { return error.reason }
            state.bytes = Int(max(0, lseek(state.descriptor, 0, SEEK_END)))
            if state.bytes + line.count > Self.maximumBytes {
                rotate(&state)
                return write(line, &state)
            }
        }
        let written = line.withUnsafeBytes { Glibc.write(state.descriptor, $0.baseAddress, $0.count) }
        guard written == line.count else { return written < 0 ? String(cString: strerror(errno)) : "only a part of a line was written" }
        state.bytes += written
        return nil
    }

    private func rotate(_ state: inout State) {
        if state.descriptor >= 0 { close(state.descriptor) }
        state.descriptor = -1
        state.bytes = 0
        for number in stride(from: Self.maximumFiles - 1, to: 0, by: -1) {
            rename(number == 1 ? path : "\(path).\(number - 1)", "\(path).\(number)")
        }
    }

    /// The last entries of a data folder, oldest first; each is a line of JSON. Empty if nothing was ever recorded.
    ///
    /// - Throws: ``AgentError`` if this user may not read them.
    package static func last(_ count: Int, dataFolder: String) throws(AgentError) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        for number in 0..<maximumFiles where lines.count < count {
            let file = number == 0 ? path(dataFolder) : "\(path(dataFolder)).\(number)"
            guard let bytes = try read(file) else { continue }
            lines = bytes.split(separator: UInt8(ascii: "\n")).map { Array($0) } + lines
        }
        return lines.suffix(count)
    }

    private static func read(_ path: String) throws(AgentError) -> [UInt8]? {
        let descriptor: Int32
        do { descriptor = try RegularFile.open(path, O_RDONLY) } catch {
            if error.isMissing { return nil }
            throw AgentError(.failed, "\(error)")
        }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 2 * maximumBytes)
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress?.advanced(by: count), $0.count - count) }
            if got < 0, errno == EINTR { continue }
            guard got > 0 else { break }
            count += got
        }
        return Array(bytes[..<count])
    }
}
