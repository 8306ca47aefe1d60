/// One plugin in its own sandboxed Lua state.
///
/// Not Sendable: confined to one thread at a time, which must have at least 1 MB of stack (Lua uses up to 0.4 MB).
/// A call from inside a `LuaHost` function of the same state is refused.
public final class LuaPluginState {
    /// The plugin's name.
    public let name: String
    /// `description` of the returned table.
    public let description: String?
    /// The hooks the returned table holds; kept as they were at load, whatever the plugin does to its table later.
    public let hooks: Set<LuaHook>
    /// `params` of the returned table as declared, an object (unchecked beyond being a table with string keys) or `missing`.
    public let parameterDeclarations: LuaValue
    /// `limits` of the returned table as declared, or `missing`.
    public let limitDeclarations: LuaValue
    public let limits: LuaLimits

    /// Compiles the source (text only), runs its load-time code under `limits.load` and checks the returned table.
    ///
    /// - Parameters:
    ///   - chunkName: what errors show, like "by-owner.lua"; no path.
    /// - Throws: `load` for what is wrong with the plugin, else `timeout` or `memory`.
    public init(
        name: String, chunkName: String, source: [UInt8], modules: any LuaModuleLoader = LuaNoModules(),
        host: any LuaHost = LuaBareHost(), limits: LuaLimits = LuaLimits()
    ) throws(LuaFailure) {
        fatalError("being written")
    }

    /// Prepares `ctx` for one use. Costs some 10 µs and a few KB of the state's memory; release it when the use ends.
    public func makeUse(_ context: LuaContext) throws(LuaFailure) -> LuaUse { fatalError("being written") }

    /// Frees a use; releasing twice does nothing.
    public func release(_ use: LuaUse) { fatalError("being written") }

    /// Asks a filter hook about one document. The hot path: nothing is allocated in Swift.
    public func callFilter(
        _ hook: LuaHook, document: borrowing LuaDocument, use: LuaUse, flags: LuaFlags = [], limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> Bool { fatalError("being written") }

    /// The same over borrowed bytes, which are only read during the call.
    public func callFilter(
        _ hook: LuaHook, id: UnsafeRawBufferPointer, revision: UnsafeRawBufferPointer, isDeleted: Bool,
        body: UnsafeRawBufferPointer, use: LuaUse, flags: LuaFlags = [], limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> Bool { fatalError("being written") }

    /// Asks `resolve`.
    public func callResolve(
        _ conflict: borrowing LuaConflict, use: LuaUse, limits: LuaCallLimits = .resolver
    ) throws(LuaFailure) -> LuaResolution { fatalError("being written") }

    /// Asks `authenticate_password`. The bytes are given to Lua as they are.
    public func callPassword(
        username: [UInt8], password: [UInt8], use: LuaUse, limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> LuaPrincipal { fatalError("being written") }

    // MARK: Plugin tests (`NAME.test.lua`)

    /// Compiles a test file in this state and returns its case names, ascending by bytes.
    public func loadTests(chunkName: String, source: [UInt8]) throws(LuaFailure) -> [String] { fatalError("being written") }

    /// Runs one case of the last `loadTests`. `t.push_filter(doc, ctx?)`, `t.pull_filter(doc, ctx?)`, `t.resolve(conflict, ctx?)`,
    /// `t.authenticate_password(username, password, ctx?)` call this plugin's hooks; `t.accept`, `t.reject`, `t.equal(a, b)`,
    /// `t.fails(function)` check. A failed check is a failure of kind `error` with the line of the check.
    public func runTest(_ name: String, context: LuaContext, limits: LuaCallLimits = .resolver) throws(LuaFailure) { fatalError("being written") }

    // MARK: What it uses

    /// Bytes the state holds now.
    public var memoryBytes: Int { fatalError("being written") }
    /// The most it has held.
    public var peakMemoryBytes: Int { fatalError("being written") }
    /// After a `memory` failure, or with more than 7/8 of the memory held between calls: build a new state and drop this one.
    public var needsRebuild: Bool { fatalError("being written") }
    /// Modules that `require` has loaded so far, by the names asked for (a reload watches their files).
    public var requiredModules: [String] { fatalError("being written") }
    /// Lua instructions of the last call, in steps of 1,000, with library charges.
    public var lastInstructions: Int { fatalError("being written") }
}
