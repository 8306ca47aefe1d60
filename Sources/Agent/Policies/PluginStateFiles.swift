import Environment
import Glibc
import LuaRuntime
import PluginHost
import Synchronization

/// `nightjar.state` of all plugins: one JSON file per plugin in the data folder. A change is on disk within a second, and at the latest when the
/// agent stops; a file is replaced atomically, so that a crash leaves either the old or the new one.
final class PluginStateFiles: Sendable {
    private struct Tables {
        var loaded: [String: Result<PluginStateTable, PluginServiceRefusal>] = [:]
        var changed: Set<String> = []
        var isWriting = false
    }

    private let folder: String
    private let time: any TimeSource
    private let tables = Mutex(Tables())
    /// Called for files that cannot be written.
    private let report: @Sendable (String) -> Void
    /// Changes are collected for this long: a filter may count every document.
    static let delaySeconds = 1

    /// - Parameter folder: created when the first plugin stores something.
    init(folder: String, time: any TimeSource, report: @escaping @Sendable (String) -> Void) {
        self.folder = folder
        self.time = time
        self.report = report
    }

    func read(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
        let table = tables.withLock { load(plugin, &$0) }
        return try table.get().read(key)
    }

    func write(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) {
        let (outcome, mustStart) = tables.withLock { tables -> (Result<Void, PluginServiceRefusal>, Bool) in
            var table: PluginStateTable
            switch load(plugin, &tables) {
            case .success(let found): table = found
            case .failure(let refusal): return (.failure(refusal), false)
            }
            do throws(PluginServiceRefusal) { try table.write(key, value) } catch { return (.failure(error), false) }
            tables.loaded[plugin] = .success(table)
            tables.changed.insert(plugin)
            defer { tables.isWriting = true }
            return (.success(()), !tables.isWriting)
        }
        if mustStart {
            Task.detached { [self] in
                try? await time.sleep(seconds: Self.delaySeconds)
                flush()
            }
        }
        try outcome.get()
    }

    /// Writes all changes. A file that cannot be written is reported and tried again with the next change.
    func flush() {
        let changed = tables.withLock { tables in
            defer { (tables.changed, tables.isWriting) = ([], false) }
            return tables.changed.sorted().compactMap { name in
                if case .success(let table)? = tables.loaded[name] { (name, table.json) } else { nil }
            }
        }
        for (name, bytes) in changed {
            do {
                try Folders.make(folder)
                try DurableFile.write("\(folder)/\(name).json", bytes, writers: .thisProcess)
            } catch {
                report("plugin \(name): nightjar.state cannot be stored: \(error)")
                tables.withLock { _ = $0.changed.insert(name) }
            }
        }
    }

    private func load(_ plugin: String, _ tables: inout Tables) -> Result<PluginStateTable, PluginServiceRefusal> {
        if let known = tables.loaded[plugin] { return known }
        let found = Self.read("\(folder)/\(plugin).json")
        // A file that cannot be read now may be readable later, so failures are not cached.
        if case .success = found { tables.loaded[plugin] = found }
        return found
    }

    private static func read(_ path: String) -> Result<PluginStateTable, PluginServiceRefusal> {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return .success(PluginStateTable()) }
            return .failure(PluginServiceRefusal("nightjar.state cannot be read from \(path): \(String(cString: strerror(errno)))"))
        }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 2 * PluginStateTable.maximumBytes)
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress?.advanced(by: count), $0.count - count) }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else {
                return .failure(PluginServiceRefusal("nightjar.state cannot be read from \(path): \(String(cString: strerror(errno)))"))
            }
            if got == 0 { break }
            count += got
        }
        guard let table = PluginStateTable(json: Array(bytes[..<count])) else {
            return .failure(PluginServiceRefusal(
                "\(path) is not what nightjar.state was stored as: an object of at most \(PluginStateTable.maximumBytes) bytes; repair or remove it"))
        }
        return .success(table)
    }
}
