import Documents
import Environment
import Glibc
import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// A folder of its own for one test.
final class Folder: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/nightjar-plugins-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary folder: \(String(cString: strerror(errno)))") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { Folder.removeAll(path) }

    func callAsFunction(_ name: String) -> String { "\(path)/\(name)" }

    func make(_ name: String) { mkdir(self(name), 0o755) }

    /// As an editor that writes in place.
    func write(_ name: String, _ text: String) {
        guard let file = fopen(self(name), "w") else { fatalError("cannot write \(name): \(String(cString: strerror(errno)))") }
        fputs(text, file)
        fclose(file)
    }

    /// As an editor that writes a temporary file and renames it.
    func save(_ name: String, _ text: String) {
        write(".\(name.split(separator: "/").last ?? "x").swp~", text)
        rename(self(".\(name.split(separator: "/").last ?? "x").swp~"), self(name))
    }

    func text(_ name: String) -> String {
        guard let file = fopen(self(name), "r") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    func remove(_ name: String) { unlink(self(name)) }
    func removeFolder(_ name: String) { Folder.removeAll(self(name)) }
    func move(_ name: String, to other: String) { rename(self(name), self(other)) }
    func names(in folder: String) -> [String] {
        guard let stream = opendir(self(folder)) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }
    func link(_ name: String, to target: String) { symlink(target, self(name)) }
    /// Replaces a link in one step, as deployment tools do.
    func flip(_ name: String, to target: String) {
        symlink(target, self("\(name).new"))
        rename(self("\(name).new"), self(name))
    }

    private static func removeAll(_ path: String) {
        guard let stream = opendir(path) else { return }
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name == "." || name == ".." { continue }
            let child = "\(path)/\(name)"
            if unlink(child) != 0 { removeAll(child) }
        }
        closedir(stream)
        rmdir(path)
    }
}

/// A host over one folder that is stopped at the end, and its events from before the first loading on.
func withHost<Result: Sendable>(
    _ folder: String, configurationFolder: String? = nil, limits: PluginHostLimits = quick, services: any PluginServices = NoPluginServices(),
    proof: any PluginProof = NoPluginProof(), versionsFolder: String? = nil, seal: @escaping @Sendable () -> PluginSeal? = { nil }, logger: Logger = quiet, environment: Environment = .system, _ body: (PluginHost, inout Events) async throws -> Result
) async throws -> Result {
    let host = try PluginHost(
        folder: folder, configurationFolder: configurationFolder, limits: limits, services: services, proof: proof,
        versionsFolder: versionsFolder, seal: seal, logger: logger, environment: environment)
    var events = Events(host)
    await host.start()
    do {
        let result = try await body(host, &events)
        await host.shutdown()
        return result
    } catch {
        await host.shutdown()
        throw error
    }
}

/// A value that tasks share.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>
    init(_ value: Value) { self.value = Mutex(value) }
    func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result { value.withLock { body(&$0) } }
}

/// Short quiet time, and no regular reading that could hide a lost notice.
let quick: PluginHostLimits = {
    var limits = PluginHostLimits()
    limits.quietMilliseconds = 20
    limits.rescanSeconds = 3600
    return limits
}()

let quiet: Logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

/// Waits for events; a test's time limit ends a wait in vain.
struct Events {
    private var iterator: AsyncStream<PluginEvent>.Iterator
    private(set) var seen: [PluginEvent] = []

    init(_ host: PluginHost) { iterator = host.events().makeAsyncIterator() }

    mutating func wait(_ matches: (PluginEvent) -> Bool) async throws -> PluginEvent {
        while let event = await iterator.next() {
            seen.append(event)
            if matches(event) { return event }
        }
        throw StreamEnded()
    }

    struct StreamEnded: Error {}

    @discardableResult
    mutating func reloaded(_ name: String) async throws -> String {
        guard case .reloaded(_, _, let to) = try await wait({ if case .reloaded(name, _, _) = $0 { true } else { false } }) else { throw StreamEnded() }
        return to
    }

    @discardableResult
    mutating func refused(_ name: String) async throws -> PluginProblem {
        guard case .refused(_, _, _, let problem) = try await wait({ if case .refused(name, _, _, _) = $0 { true } else { false } }) else { throw StreamEnded() }
        return problem
    }
}

func document(_ json: String, id: String = "doc", deleted: Bool = false, accessRemoved: Bool = false) -> PolicyDocument {
    PolicyDocument(
        id: DocumentID(stored: id), revision: RevisionID(stored: "1-0123456789abcdef0123456789abcdef01234567"), isDeleted: deleted,
        body: Array(json.utf8), accessRemoved: accessRemoved)
}

let push = PolicyContext(database: "main", collection: .default, direction: .push, replicator: "hub", remote: "ws://hub/main")

extension DocumentFilter {
    func judge(_ json: String...) async -> [FilterVerdict] { await evaluate(json.map { document($0) }, push) }
    /// The kind of the one failure, or nil.
    func failure(_ json: String) async -> PolicyFailure? {
        guard case .failed(let failure) = await judge(json)[0] else { return nil }
        return failure
    }
}

extension PluginHost {
    func status(_ name: String) -> PluginStatus? { status().first { $0.name == name } }
    func filter(_ name: String, _ params: LuaValue = .missing) throws -> any DocumentFilter {
        try pushFilter(plugin: name, params: params, usedBy: "replicator hub push_filter")
    }
}

extension PluginHost {
    func judge(_ name: String, _ json: String...) async throws -> [FilterVerdict] {
        try await filter(name).evaluate(json.map { document($0) }, push)
    }
}

func passes(_ test: String) -> String { "return { push_filter = function(doc, ctx) return \(test) end }\n" }
