import Documents
import Encodings
import Environment
import Glibc

/// A stored version that was once in force.
package struct KeptVersion: Sendable, Equatable {
    package var version: String
    /// When it last came into force (seconds since 1970).
    package var since: Int64
}

/// A rollback in effect: `to` is in force although the folder contains another version.
package struct PluginRollback: Sendable, Equatable {
    package var from: String
    package var to: String

    package init(from: String, to: String) {
        self.from = from
        self.to = to
    }
}

/// What a start would use if the files in the plugins folder are unusable.
package enum KeptVersions {
    /// The version of a plugin that was last in force, if it is stored and readable.
    ///
    /// - Parameters:
    ///   - folder: the agent's `plugin-versions`.
    ///   - seal: checks the signatures; nil: none are required.
    package static func last(_ plugin: String, in folder: String, limits: PluginHostLimits = PluginHostLimits(), seal: PluginSeal? = nil) -> String? {
        guard PluginName.isValid(plugin) else { return nil }
        let store = VersionStore(folder: folder, limits: limits)
        guard let version = store.index(plugin).current, let source = try? store.source(plugin, version), seal?.refusal(of: source) == nil else { return nil }
        return version
    }
}

/// The versions of each plugin that were last in force, stored as files in the agent's data folder, so that a rollback works after a restart and
/// without the plugins folder. Confined to the supervisor's thread.
///
/// A folder for each plugin: `VERSION.json` with the sources and the signature of one version, and `index.json`, written last, with their order.
final class VersionStore {
    struct Index: Equatable {
        /// In the order in which they came into force, newest last.
        var kept: [KeptVersion] = []
        /// The version in force; after a rollback, not necessarily the last one.
        var current: String?
        var rollback: PluginRollback?
        /// The identity of the files in the plugins folder at the time of the rollback: different files end the rollback.
        var rollbackIdentity = ""
    }

    private let folder: String?
    private let limits: PluginHostLimits
    private var indexes: [String: Index] = [:]

    /// - Parameter folder: nil to store nothing.
    init(folder: String?, limits: PluginHostLimits) {
        self.folder = folder
        self.limits = limits
    }

    /// Empty if nothing is stored, or it cannot be read.
    func index(_ plugin: String) -> Index {
        if let known = indexes[plugin] { return known }
        let read = folder.flatMap { _ in readIndex(plugin) } ?? Index()
        indexes[plugin] = read
        return read
    }

    /// The sources of a stored version.
    func source(_ plugin: String, _ version: String) throws(FileRefusal) -> PluginSource {
        guard folder != nil else { throw FileRefusal(message: "no versions are kept here") }
        // Base64 adds a third, and names and quotes a little.
        let bytes = try BoundedFile.readOwn(path(plugin, version), limit: limits.pluginBytes * 4 + (1 << 20))
        guard let json = try? JSONValue(parsing: bytes), let main = Self.file(json["main"]) else {
            throw FileRefusal(message: "\(path(plugin, version)) is not a kept version")
        }
        var modules: [String: PluginSource.File] = [:]
        for member in json["modules"]?.asObject?.members ?? [] { modules[member.key] = Self.file(member.value) }
        let source = PluginSource(
            name: plugin, main: main, own: modules, library: [:], tests: Self.file(json["tests"]),
            signature: json["signature"]?.asString.flatMap { Base64.decode($0) })
        guard source.version == version else {
            throw FileRefusal(message: "\(path(plugin, version)) does not hold version \(version) but \(source.version)")
        }
        return source
    }

    /// Whether these files, including tests, were in force before: then their tests have passed.
    func holds(_ source: PluginSource) -> Bool {
        folder != nil && index(source.name).kept.contains { $0.version == source.version } && isStored(source)
    }

    /// Records that a version came into force, from the folder or at a start.
    func recordActivation(_ source: PluginSource, now: Int64) throws(FileRefusal) {
        var index = index(source.name)
        if index.current == source.version, index.rollback == nil, isStored(source, signed: true) { return }
        if index.current != source.version {
            // The version that was in force until now becomes the previous one, even after a rollback.
            if let current = index.current, let at = index.kept.firstIndex(where: { $0.version == current }) {
                index.kept.append(index.kept.remove(at: at))
            }
            index.kept.removeAll { $0.version == source.version }
            index.kept.append(KeptVersion(version: source.version, since: now))
        } else if index.kept.isEmpty {
            index.kept.append(KeptVersion(version: source.version, since: now))
        }
        index.current = source.version
        index.rollback = nil
        index.kept.removeFirst(max(0, index.kept.count - max(1, limits.keptVersions)))
        try store(index, source)
    }

    /// Records that an operator put an older version in force.
    func rolledBack(to source: PluginSource, from: String, identity: String) throws(FileRefusal) {
        var index = index(source.name)
        index.current = source.version
        index.rollback = PluginRollback(from: from, to: source.version)
        index.rollbackIdentity = identity
        try store(index, source)
    }

    /// The rollback ends; its version stays in force until another one is accepted.
    func endRollback(_ plugin: String) throws(FileRefusal) {
        var index = index(plugin)
        guard index.rollback != nil else { return }
        index.rollback = nil
        try store(index, nil, plugin)
    }

    // MARK: Files

    private func path(_ plugin: String, _ version: String) -> String { "\(folder ?? "")/\(plugin)/\(version).json" }

    /// - Parameter signed: whether its signature, if it has one, must be stored as well.
    private func isStored(_ source: PluginSource, signed: Bool = false) -> Bool {
        guard folder != nil, let stored = try? self.source(source.name, source.version) else { return folder == nil }
        return stored.identity == source.identity && (!signed || source.signature == nil || source.signature == stored.signature)
    }

    private func store(_ index: Index, _ source: PluginSource?, _ plugin: String? = nil) throws(FileRefusal) {
        guard let name = source?.name ?? plugin else { return }
        // It is in force even if it cannot be stored: the error is reported, and a restart begins with what is stored.
        indexes[name] = index
        guard let folder else { return }
        do throws(FileError) {
            try DurableFile.makeFolder(folder)
            if access("\(folder)/\(name)", F_OK) != 0 { makeRoom(in: folder) }
            try DurableFile.makeFolder("\(folder)/\(name)")
            if let source, !isStored(source, signed: true) {
                try DurableFile.write(path(name, source.version), Self.encode(source), writers: .thisProcess)
            }
            try DurableFile.write(path(name, "index"), Self.encode(index), writers: .thisProcess)
        } catch {
            throw FileRefusal(error)
        }
        let wanted = Set(index.kept.map { "\($0.version).json" } + ["index.json"])
        for file in Self.names(in: "\(folder)/\(name)") where !wanted.contains(file) { unlink("\(folder)/\(name)/\(file)") }
    }

    /// Plugins come and go over the years: those that came into force longest ago are dropped.
    private func makeRoom(in folder: String) {
        let names = Self.names(in: folder)
        guard names.count >= 2 * limits.plugins else { return }
        let byAge = names.map { name in (readIndex(name)?.kept.last?.since ?? 0, name) }.sorted { $0.0 < $1.0 }
        for (_, name) in byAge.prefix(names.count - 2 * limits.plugins + 1) where indexes[name]?.current == nil {
            for file in Self.names(in: "\(folder)/\(name)") { unlink("\(folder)/\(name)/\(file)") }
            rmdir("\(folder)/\(name)")
        }
    }

    private func readIndex(_ plugin: String) -> Index? {
        guard let bytes = try? BoundedFile.readOwn(path(plugin, "index"), limit: 1 << 20), let json = try? JSONValue(parsing: bytes) else { return nil }
        var index = Index()
        for entry in json["kept"]?.asArray ?? [] {
            // File names are derived from it.
            guard let version = entry["version"]?.asString, Hex.decode(version) != nil else { continue }
            index.kept.append(KeptVersion(version: version, since: entry["since"]?.asInt64 ?? 0))
        }
        index.current = json["current"]?.asString.flatMap { current in index.kept.contains { $0.version == current } ? current : nil }
        if let rollback = json["rolled_back"], let from = rollback["from"]?.asString, let to = rollback["to"]?.asString, to == index.current {
            index.rollback = PluginRollback(from: from, to: to)
            index.rollbackIdentity = rollback["identity"]?.asString ?? ""
        }
        return index
    }

    private static func encode(_ index: Index) -> [UInt8] {
        var object = JSONObject()
        object["kept"] = .array(index.kept.map { ["version": .string($0.version), "since": .int($0.since)] })
        object["current"] = index.current.map { .string($0) } ?? .null
        object["rolled_back"] = index.rollback.map {
            ["from": .string($0.from), "to": .string($0.to), "identity": .string(index.rollbackIdentity)]
        } ?? .null
        return JSONValue.object(object).serialize()
    }

    private static func encode(_ source: PluginSource) -> [UInt8] {
        func json(_ file: PluginSource.File) -> JSONValue { ["path": .string(file.path), "base64": .string(Base64.encode(file.bytes))] }
        var modules = JSONObject()
        for (name, file) in source.modules.sorted(by: { $0.key < $1.key }) { modules[name] = json(file) }
        return JSONValue.object(JSONObject([
            .init(key: "version", value: .string(source.version)), .init(key: "main", value: json(source.main)),
            .init(key: "modules", value: .object(modules)), .init(key: "tests", value: source.tests.map(json) ?? .null),
            .init(key: "signature", value: source.signature.map { .string(Base64.encode($0)) } ?? .null),
        ])).serialize()
    }

    private static func file(_ json: JSONValue?) -> PluginSource.File? {
        guard let path = json?["path"]?.asString, let text = json?["base64"]?.asString, let bytes = Base64.decode(text) else { return nil }
        return PluginSource.File(path: path, bytes: bytes)
    }

    private static func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self) }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}
