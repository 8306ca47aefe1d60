import Documents
import Environment
import Glibc
import PluginHost
import Synchronization
import TLS

/// The fleet's plugins that this gateway uses: one file that is replaced whole, so that a power cut leaves the old set or the new one, and a
/// start needs no hub.
///
/// What is read at a start is verified again: a document whose key is trusted no longer is not used. The highest version of each name is
/// kept even then, so that an older one is not taken for news.
final class FleetStore: Sendable {
    private struct State {
        var used: [String: FleetDocument] = [:]
        /// By name, the highest version that was ever in force here.
        var highest: [String: Int64] = [:]
    }

    /// Documents, their framing, and room for a few more than a plugins folder holds.
    private static let fileBytes = 128 << 20

    private let folder: String
    private let state: Mutex<State>

    /// - Throws: where there is a file that cannot be read; beginning anew would let old versions in.
    init(data: String, trusting keys: [VerifyingKey]) throws(AgentError) {
        folder = "\(data)/fleet"
        var state = State()
        let path = "\(data)/fleet/accepted.json"
        if access(path, F_OK) == 0 {
            guard let bytes = Self.read(path), let json = try? JSONValue(parsing: bytes), let used = json["used"]?.asArray,
                let highest = json["highest"]?.asObject
            else { throw AgentError(.failed, "\(path): is damaged; it says which versions of the fleet's plugins were in force: move it away to begin anew") }
            for member in highest.members { state.highest[member.key] = member.value.asInt64 }
            for body in used {
                guard let name = body["name"]?.asString, let version = body["version"]?.asInt64,
                    let document = try? FleetDocument(verifying: body.serialize(), id: FleetDocument.id(name: name, version: version), trusting: keys)
                else { continue }
                state.used[name] = document
            }
        }
        self.state = Mutex(state)
    }

    var plugins: [SuppliedPlugin] { state.withLock { $0.used.values.map(\.plugin).sorted { $0.name < $1.name } } }
    var used: [FleetDocument] { state.withLock { $0.used.values.sorted { $0.name < $1.name } } }
    func used(_ name: String) -> FleetDocument? { state.withLock { $0.used[name] } }
    func highest(_ name: String) -> Int64 { state.withLock { $0.highest[name] ?? 0 } }

    /// In memory only: what the plugin host is offered until it has taken it.
    func offer(_ document: FleetDocument?, for name: String) { state.withLock { $0.used[name] = document } }

    /// Durable: what is offered is in force.
    func keep(_ document: FleetDocument) throws(FileError) {
        let bytes = state.withLock { state -> [UInt8] in
            state.highest[document.name] = max(document.version, state.highest[document.name] ?? 0)
            var highest = JSONObject()
            for (name, version) in state.highest.sorted(by: { $0.key < $1.key }) { highest[name] = JSONOutput.number(version) }
            let used = state.used.values.sorted { $0.name < $1.name }.compactMap(\.signedBody)
            return JSONOutput.object(["used": .array(used), "highest": .object(highest)]).serialize()
        }
        try DurableFile.makeFolder(folder)
        try DurableFile.write("\(folder)/accepted.json", bytes, writers: .thisProcess)
    }

    private static func read(_ path: String) -> [UInt8]? {
        guard let file = try? SystemFiles().open(path, .read), let size = try? file.size(), size <= fileBytes else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(size))
        let count = bytes.withUnsafeMutableBytes { try? file.read(at: 0, into: $0) }
        return count == bytes.count ? bytes : nil
    }
}
