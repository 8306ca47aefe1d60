import AgentConfiguration
import Documents
import Environment
import Glibc
import PluginHost
import Synchronization
import TLS

/// The fleet documents in use on this gateway: one file that is replaced atomically, so that a power cut leaves either the old set or the new one,
/// and a start does not need the hub.
///
/// What is read at a start is verified again, and counts only as long as its key is trusted and its kind is accepted. For each key the highest
/// version that was ever in force is kept, so that an older version from that key is not taken for a new one.
package final class FleetStore: Sendable {
    private struct State {
        /// Includes documents whose key is not trusted at the moment: it may be again.
        var documents: [FleetItem: FleetDocument] = [:]
        /// By key, the highest version that was ever in force here; under "", what an earlier version of this program has written.
        var highest: [FleetItem: [String: Int64]] = [:]
        var trusted: Set<VerifyingKey> = []
        var accepted: Set<FleetItem.Kind> = []
        /// For plugins in use, the version's name at the plugin host.
        var versions: [FleetItem: String] = [:]

        func counts(_ document: FleetDocument) -> Bool { accepted.contains(document.item.kind) && (document.key.map(trusted.contains) ?? false) }
        var used: [FleetDocument] { documents.values.filter(counts).sorted { $0.item < $1.item } }
    }

    /// Enough for the documents, their framing, and a few more documents than a plugins folder holds.
    private static let fileBytes = 128 << 20

    private let folder: String
    private let state: Mutex<State>
    /// One write at a time, so that the newest state is written last.
    private let writing = Mutex(())

    /// - Throws: if there is a file that cannot be read; starting from scratch would let old versions in.
    init(data: String, _ settings: FleetSettings) throws(AgentError) {
        folder = "\(data)/fleet"
        var state = State()
        let path = "\(data)/fleet/accepted.json"
        if access(path, F_OK) == 0 {
            guard let bytes = Self.read(path), let json = try? JSONValue(parsing: bytes), let used = json["used"]?.asArray,
                let highest = json["highest"]?.asObject
            else { throw AgentError(.failed, "\(path): is damaged; it records which of the fleet's documents were in force: move it away to start afresh") }
            for member in highest.members {
                guard let item = FleetItem(stored: member.key) else { continue }
                if let version = member.value.asInt64 { state.highest[item] = ["": version] }
                for key in member.value.asObject?.members ?? [] { state.highest[item, default: [:]][key.key] = key.value.asInt64 }
            }
            for body in used {
                guard let kind = body["kind"]?.asString.flatMap({ FleetItem.Kind(rawValue: $0) }), let name = body["name"]?.asString,
                    let version = body["version"]?.asInt64,
                    let document = try? FleetDocument(verifying: body.serialize(), id: FleetItem(kind, name).id(version), trusting: nil)
                else { continue }
                state.documents[document.item] = document
                state.versions[document.item] = document.plugin?.version
            }
        }
        self.state = Mutex(state)
        follow(settings)
    }

    /// Applies new settings, which decide whose documents count, and which kinds.
    func follow(_ settings: FleetSettings) {
        state.withLock { state in
            state.trusted = Set(settings.keys.compactMap { VerifyingKey($0.value) })
            state.accepted = settings.acceptedKinds
        }
    }

    var plugins: [SuppliedPlugin] { used.compactMap(\.plugin) }
    var fragments: [ConfigurationFragment] { used.compactMap(\.fragment) }
    /// The fragments that these settings vouch for, whatever the ones in force say.
    func fragments(by settings: FleetSettings) -> [ConfigurationFragment] {
        let keys = Set(settings.keys.map(\.value))
        return state.withLock { state in
            state.documents.values.filter { $0.key.map { keys.contains($0.description) } ?? false }.compactMap(\.fragment)
        }
    }
    /// The documents in use, including withdrawals, in ascending order.
    var used: [FleetDocument] { state.withLock { $0.used } }
    func used(_ item: FleetItem) -> FleetDocument? { state.withLock { state in state.documents[item].flatMap { state.counts($0) ? $0 : nil } } }
    /// Plugins whose key is no longer trusted: no stored version of theirs may be used.
    var distrustedPlugins: Set<String> {
        state.withLock { state in Set(state.documents.values.filter { $0.item.kind == .plugin && !$0.isWithdrawal && !state.counts($0) }.map(\.item.name)) }
    }

    /// A document with this version or a lower one is not new.
    func highest(_ item: FleetItem) -> Int64 {
        state.withLock { state in
            let trusted = Set(state.trusted.map(\.description) + [""])
            return (state.highest[item] ?? [:]).filter { trusted.contains($0.key) }.values.max() ?? 0
        }
    }

    /// The document whose plugin is in force at the host under this version name.
    func origin(of plugin: String, version: String?) -> FleetDocument? {
        let item = FleetItem(.plugin, plugin)
        return state.withLock { state in
            guard let version, state.versions[item] == version, let document = state.documents[item], state.counts(document) else { return nil }
            return document
        }
    }

    /// In memory only: what is offered to the parts of the agent, until they accept it.
    func offer(_ document: FleetDocument?, for item: FleetItem) {
        state.withLock { state in
            state.documents[item] = document
            state.versions[item] = document?.plugin?.version
        }
    }

    /// Makes an accepted document durable.
    func keep(_ document: FleetDocument) throws(FileError) {
        let folder = folder
        let failure = writing.withLock { _ -> FileError? in
            let (bytes, highest) = state.withLock { state in
                let key = document.key.map(\.description) ?? ""
                var highest = state.highest
                highest[document.item, default: [:]][key] = max(document.version, highest[document.item]?[key] ?? 0)
                return (Self.file(state.documents, highest), highest)
            }
            do throws(FileError) {
                try DurableFile.makeFolder(folder)
                try DurableFile.write("\(folder)/accepted.json", bytes, writers: .thisProcess)
            } catch { return error }
            state.withLock { $0.highest = highest }
            return nil
        }
        if let failure { throw failure }
    }

    private static func file(_ documents: [FleetItem: FleetDocument], _ highest: [FleetItem: [String: Int64]]) -> [UInt8] {
        var versions = JSONObject()
        for (item, keys) in highest.sorted(by: { $0.key < $1.key }) {
            var byKey = JSONObject()
            for (key, version) in keys.sorted(by: { $0.key < $1.key }) { byKey[key] = JSONOutput.number(version) }
            versions[item.stored] = .object(byKey)
        }
        let used = documents.values.sorted { $0.item < $1.item }.compactMap(\.signedBody)
        return JSONOutput.object(["used": .array(used), "highest": .object(versions)]).serialize()
    }

    private static func read(_ path: String) -> [UInt8]? {
        guard let file = try? SystemFiles().open(path, .read), let size = try? file.size(), size <= fileBytes else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(size))
        let count = bytes.withUnsafeMutableBytes { try? file.read(at: 0, into: $0) }
        return count == bytes.count ? bytes : nil
    }
}

extension FleetSettings {
    var acceptedKinds: Set<FleetItem.Kind> {
        var kinds: Set<FleetItem.Kind> = []
        if accept.contains(.plugins) { kinds.insert(.plugin) }
        if !acceptConfig.isEmpty { kinds.insert(.config) }
        return kinds
    }
}
