import Environment
import Glibc
import LuaRuntime
import Synchronization
import Testing

private final class Work: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

private final class Outcome<Value: Sendable>: Sendable {
    let result = Mutex<Result<Value, any Error>?>(nil)
}

/// Runs the body on a thread of its own with the 1 MB of stack that plugin threads are promised, and waits for it.
func onPluginThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
    let outcome = Outcome<Value>()
    let work = Work {
        let result = Result { try body() }
        outcome.result.withLock { $0 = result }
    }
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setstacksize(&attributes, 1 << 20)
    var thread = pthread_t()
    let status = pthread_create(&thread, &attributes, { context in
        guard let context else { return nil }
        Unmanaged<Work>.fromOpaque(context).takeRetainedValue().body()
        return nil
    }, Unmanaged.passRetained(work).toOpaque())
    try #require(status == 0)
    pthread_join(thread, nil)
    return try #require(outcome.result.withLock { $0 }).get()
}

func makeState(
    _ source: String, modules: any LuaModuleLoader = LuaNoModules(), host: any LuaHost = LuaBareHost(.system),
    limits: LuaLimits = LuaLimits()
) throws -> LuaPluginState {
    try LuaPluginState(name: "p", chunkName: "p.lua", source: Array(source.utf8), modules: modules, host: host, limits: limits)
}

extension LuaDocument {
    init(_ json: String, id: String = "doc", revision: String = "1-a", isDeleted: Bool = false) {
        self.init(id: id, revision: revision, isDeleted: isDeleted, body: Array(json.utf8))
    }
}

func makeContext(_ params: LuaValue = .object([])) -> LuaContext {
    LuaContext(
        params: params, database: "db", scope: "s", collection: "c", direction: "push", replicator: "up", remote: "wss://x",
        plugin: "p", version: "v1")
}

extension LuaPluginState {
    /// One call of push_filter with a fresh use.
    func filter(
        _ json: String, params: LuaValue = .object([]), flags: LuaFlags = [], limits: LuaCallLimits = .filter
    ) throws -> Bool {
        let use = try makeUse(makeContext(params))
        defer { release(use) }
        return try callFilter(.pushFilter, document: LuaDocument(json), use: use, flags: flags, limits: limits)
    }
}

/// The body of a push_filter, run once on a document.
func run(
    _ body: String, on json: String = "{}", params: LuaValue = .object([]), host: any LuaHost = LuaBareHost(.system),
    limits: LuaLimits = LuaLimits(), call: LuaCallLimits = .filter
) throws -> Bool {
    try onPluginThread {
        try makeState("return { push_filter = function(doc, ctx)\n\(body)\nend }", host: host, limits: limits)
            .filter(json, params: params, limits: call)
    }
}

/// The failure of the body of a push_filter.
func failure(
    _ body: String, on json: String = "{}", limits: LuaLimits = LuaLimits(), call: LuaCallLimits = .filter,
    host: any LuaHost = LuaBareHost(.system)
) throws -> LuaFailure {
    do {
        let passed = try run(body, on: json, host: host, limits: limits, call: call)
        Issue.record("expected a failure, got \(passed)")
        return LuaFailure(kind: .error, message: "")
    } catch let failure as LuaFailure {
        return failure
    }
}

/// The failure of loading a source.
func loadFailure(_ source: String, limits: LuaLimits = LuaLimits(), modules: any LuaModuleLoader = LuaNoModules()) throws -> LuaFailure {
    try onPluginThread {
        do {
            _ = try makeState(source, modules: modules, limits: limits)
        } catch let failure as LuaFailure {
            return failure
        }
        Issue.record("expected a failure")
        return LuaFailure(kind: .error, message: "")
    }
}
