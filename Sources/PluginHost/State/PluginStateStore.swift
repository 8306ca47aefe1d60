import Documents
import Glibc
import Logging
import LuaRuntime
import Synchronization

/// `nightjar.state` of all plugins: tables in memory, each with a file in a folder of the agent's data.
///
/// A write is in force at once and in the file after `state flush` at the latest, or when the agent stops: a file is replaced as
/// a whole, durably, so that a power cut leaves either the old or the new one.
public final class PluginStateStore: Sendable {
    private struct Entry {
        var table = StateTable()
        var isDirty = false
        /// Why the file cannot be read; the plugin's state is refused then, and the file left as it is.
        var refusal: String?
    }

    private struct Contents {
        var plugins: [String: Entry] = [:]
        var isScheduled = false
        var hasFailed = false
    }

    private let folder: String
    private let limits: PluginHostLimits
    private let logger: Logger
    private let contents = Mutex(Contents())
    /// One flush at a time, so that an older one cannot overwrite a newer one.
    private let flushing = Mutex(())

    /// - Parameter folder: made when something is written; one file `NAME.json` for each plugin.
    public init(folder: String, limits: PluginHostLimits = PluginHostLimits(), logger: Logger) {
        self.folder = folder
        self.limits = limits
        self.logger = logger
    }

    /// `.missing` where nothing is stored.
    public func read(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
        let (value, refusal) = contents.withLock { contents in
            let entry = entry(plugin, &contents)
            return (entry.table[key], entry.refusal)
        }
        if let refusal { throw PluginServiceRefusal(refusal) }
        return value
    }

    /// `.missing` removes. The error names the limit.
    public func write(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) {
        let (refusal, mustSchedule) = contents.withLock { contents -> (String?, Bool) in
            var entry = entry(plugin, &contents)
            if let refusal = entry.refusal { return (refusal, false) }
            if entry.table[key] == value { return (nil, false) }
            if let refusal = entry.table.set(key, value, limits) { return (refusal, false) }
            entry.isDirty = true
            contents.plugins[plugin] = entry
            defer { contents.isScheduled = true }
            return (nil, !contents.isScheduled)
        }
        if let refusal { throw PluginServiceRefusal(refusal) }
        if mustSchedule { schedule() }
    }

    private func schedule() {
        Task { [self, limits] in
            try? await Task.sleep(for: .milliseconds(limits.stateFlushMilliseconds))
            contents.withLock { $0.isScheduled = false }
            try? await PluginThread.run(name: "plugin-state", stackBytes: limits.stackBytes) { [self] in flush() }
        }
    }

    /// Writes what has changed; blocks for the disk. What cannot be written is tried again with the next change.
    public func flush() {
        flushing.withLock { _ in
            let dirty = contents.withLock { contents in
                let dirty = contents.plugins.filter(\.value.isDirty).mapValues(\.table.entries)
                for name in dirty.keys { contents.plugins[name]?.isDirty = false }
                return dirty
            }
            for (name, entries) in dirty.sorted(by: { $0.key < $1.key }) {
                let members = entries.sorted { $0.key < $1.key }.map { JSONObject.Member(key: $0.key, value: $0.value.json) }
                do throws(FileRefusal) {
                    try DurableFile.makeFolder(folder)
                    try DurableFile.write(JSONValue.object(JSONObject(members)).serialize(), to: path(name))
                    contents.withLock { $0.hasFailed = false }
                } catch {
                    let isFirst = contents.withLock { contents in
                        contents.plugins[name]?.isDirty = true
                        defer { contents.hasFailed = true }
                        return !contents.hasFailed
                    }
                    if isFirst { logger.error("state of plugin \(name) is kept in memory only: \(path(name)): \(error.message)") }
                }
            }
        }
    }

    private func path(_ plugin: String) -> String { "\(folder)/\(plugin).json" }

    private func entry(_ plugin: String, _ contents: inout Contents) -> Entry {
        if let known = contents.plugins[plugin] { return known }
        var made = Entry()
        do throws(FileRefusal) {
            // The text of the largest table, with what quotes and separators add.
            let limit = 2 * (limits.stateBytes + 16 * limits.stateEntries)
            let bytes = try DurableFile.read(path(plugin), limit: limit)
            guard let object = (try? JSONValue(parsing: bytes))?.asObject else { throw FileRefusal(message: "is no JSON object") }
            for member in object.members {
                if let refusal = made.table.set(member.key, LuaValue(member.value), limits) { throw FileRefusal(message: refusal) }
            }
        } catch {
            if !error.isMissing { made.refusal = "state cannot be read: \(path(plugin)): \(error.message)" }
        }
        contents.plugins[plugin] = made
        return made
    }
}
