import CLua

/// One plugin in its own sandboxed Lua state.
///
/// Not Sendable: confined to one thread at a time, which must have at least 1 MB of stack (Lua uses up to 0.4 MB). Calls from inside a `LuaHost`
/// function of the same state are refused.
public final class LuaPluginState {
    /// The plugin's name.
    public let name: String
    /// `description` of the returned table.
    public let description: String?
    /// The hooks in the returned table, as they were at load time: later changes of the table have no effect.
    public let hooks: Set<LuaHook>
    /// `params` of the returned table as declared, an object (unchecked beyond being a table with string keys) or `missing`.
    public let parameterDeclarations: LuaValue
    /// `limits` of the returned table as declared, or `missing`.
    public let limitDeclarations: LuaValue
    public let limits: LuaLimits

    let state: OpaquePointer
    let bridge: HostBridge
    private let serial: UInt64

    /// Compiles the source (text only), runs its load-time code under `limits.load` and checks the returned table.
    ///
    /// - Parameters:
    ///   - chunkName: the name shown in errors, such as "by-owner.lua"; without a path.
    /// - Throws: `load` for errors in the plugin, otherwise `timeout` or `memory`.
    public init(
        name: String, chunkName: String, source: [UInt8], modules: any LuaModuleLoader = LuaNoModules(),
        host: any LuaHost, limits: LuaLimits = LuaLimits()
    ) throws(LuaFailure) {
        let bridge = HostBridge(host: host, modules: modules)
        var bounds = limits.bounds
        guard let state = nj_open(&bounds, HostBridge.callback, Unmanaged.passUnretained(bridge).toOpaque()) else {
            throw LuaFailure(
                kind: .memory, message: "\(chunkName): no memory for a new Lua state (limit memory: \(limits.memoryBytes) bytes)")
        }
        do throws(LuaFailure) {
            var budget = limits.load.budget
            let status = withBytes(chunkName) { name in withBytes(source) { nj_load(state, name, $0, &budget) } }
            try check(status, state)
            description = try LuaPluginState.declaration("description", state).text
            parameterDeclarations = try LuaPluginState.declaration("params", state)
            limitDeclarations = try LuaPluginState.declaration("limits", state)
        } catch {
            nj_close(state)
            throw error
        }
        let mask = nj_hook_mask(state)
        hooks = Set(LuaHook.allCases.filter { mask & 1 << UInt32($0.index) != 0 })
        self.name = name
        self.limits = limits
        self.state = state
        self.bridge = bridge
        serial = Serial.next()
    }

    deinit {
        nj_close(state) // runs no script: finalizers cannot be set
    }

    private static func declaration(_ key: StaticString, _ state: OpaquePointer) throws(LuaFailure) -> LuaValue {
        try check(nj_declaration(state, key.utf8Start), state)
        let output = nj_output(state)
        guard output.length > 0 else { return .missing }
        return LuaValue(json: output.array) ?? .missing
    }

    /// Fails if a source reads a global variable that does not exist after loading and that no source assigns: the read would raise an error when a
    /// document reaches it. Finds only what can be determined without running anything.
    ///
    /// - Parameter sources: those of the plugin and its modules; `isRead` is false for a source that may never run and can only define variables.
    public func checkGlobals(_ sources: [(chunkName: String, source: [UInt8], isRead: Bool)]) throws(LuaFailure) {
        var budget = limits.load.budget
        for (chunkName, source, isRead) in sources {
            // A source that does not compile was already refused by `require`, or defines nothing.
            _ = withBytes(chunkName) { name in withBytes(source) { nj_note_globals(state, name, $0, isRead, &budget) } }
        }
        let status = nj_check_globals(state, &budget)
        if status == NJ_LOAD { try check(status, state) }
    }

    /// Prepares `ctx` for one use. Costs some 10 µs and a few KB of the state's memory; release it when the use ends.
    public func makeUse(_ context: LuaContext) throws(LuaFailure) -> LuaUse {
        var reference: Int32 = -1
        try check(withBytes(context.value.jsonBytes) { nj_make_use(state, $0, &reference) }, state)
        return LuaUse(reference: reference, stateSerial: serial)
    }

    /// Frees a use; releasing it twice has no effect.
    public func release(_ use: LuaUse) {
        guard use.stateSerial == serial else { return }
        nj_release_use(state, use.reference)
    }

    /// Calls `resolve`.
    public func callResolve(
        _ conflict: borrowing LuaConflict, use: LuaUse, limits: LuaCallLimits = .resolver
    ) throws(LuaFailure) -> LuaResolution {
        var decision: Int32 = 0
        let reference = reference(of: use)
        let (local, remote, base) = (conflict.local, conflict.remote, conflict.base)
        let (localRevision, remoteRevision, baseRevision) = (conflict.localRevision, conflict.remoteRevision, conflict.baseRevision)
        let (localVersion, remoteVersion) = (conflict.localVersion, conflict.remoteVersion)
        var lent = nj_conflict()
        let status = withDocument(local) { local in
            withDocument(remote) { remote in
                withDocument(base) { base in
                    (lent.local, lent.remote, lent.base) = (local, remote, base)
                    return withBytes(conflict.id) { id in
                        withBytes(localRevision) { localRevision in
                            withBytes(remoteRevision) { remoteRevision in
                                withBytes(ifPresent: baseRevision) { baseRevision in
                                    (lent.id, lent.local_revision, lent.remote_revision) = (id, localRevision, remoteRevision)
                                    lent.base_revision = baseRevision
                                    return withBytes(ifPresent: localVersion) { localVersion in
                                        withBytes(ifPresent: remoteVersion) { remoteVersion in
                                            (lent.local_version, lent.remote_version) = (localVersion, remoteVersion)
                                            var budget = limits.budget
                                            return nj_call_resolve(state, reference, &lent, &budget, &decision)
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        try check(status, state)
        switch Int(decision) {
        case NJ_LOCAL: return .local
        case NJ_REMOTE: return .remote
        case NJ_DELETE: return .delete
        default: return .merged(nj_output(state).array)
        }
    }

    /// Calls `authenticate_password`. The bytes are passed to Lua unchanged.
    public func callPassword(
        username: [UInt8], password: [UInt8], use: LuaUse, limits: LuaCallLimits = .filter
    ) throws(LuaFailure) -> LuaPrincipal {
        var verdict: Int32 = 0
        let reference = reference(of: use)
        let status = withBytes(username) { username in
            withBytes(password) { password in
                var budget = limits.budget
                return nj_call_password(state, reference, username, password, &budget, &verdict)
            }
        }
        try check(status, state)
        return try principal(verdict, .authenticatePassword)
    }

    /// Interprets an authenticator's verdict and output.
    func principal(_ verdict: Int32, _ hook: LuaHook) throws(LuaFailure) -> LuaPrincipal {
        switch Int(verdict) {
        case NJ_REFUSED: return .refused
        case NJ_ACCEPTED: return .accepted(.missing)
        default:
            let principal = LuaValue(json: nj_output(state).array) ?? .missing
            if let fault = principalFault(principal) {
                throw LuaFailure(kind: .result, message: "\(hookName(hook)) returned a principal table \(fault)")
            }
            return .accepted(principal)
        }
    }

    // MARK: Plugin tests (`NAME.test.lua`)

    /// Compiles a test file in this state and returns its case names, ascending by bytes.
    public func loadTests(chunkName: String, source: [UInt8]) throws(LuaFailure) -> [String] {
        var budget = limits.load.budget
        try check(withBytes(chunkName) { name in withBytes(source) { nj_load_tests(state, name, $0, &budget) } }, state)
        guard case .object(let names)? = LuaValue(json: nj_output(state).array) else { return [] }
        return names.map(\.key)
    }

    /// Runs one case of the last `loadTests`. `t.push_filter(doc, ctx?)`, `t.pull_filter(doc, ctx?)`, `t.resolve(conflict, ctx?)`,
    /// `t.authenticate_password(username, password, ctx?)`, `t.authenticate_certificate(chain, ctx?)` and `t.sync(doc, old_doc?, ctx?)` call this
    /// plugin's hooks; `t.accept`, `t.reject`, `t.equal(a, b)` and `t.fails(function)` are checks. A failed check is a failure of kind `error` with
    /// the line of the check.
    public func runTest(_ name: String, context: LuaContext, limits: LuaCallLimits = .resolver) throws(LuaFailure) {
        var budget = limits.budget
        let status = withBytes(name) { name in
            withBytes(context.value.jsonBytes) { nj_run_test(state, name, $0, &budget) }
        }
        try check(status, state)
    }

    /// What the last failed `t.equal` compared: an object with `got` and `expected`; a nil value is missing from it.
    public var lastDifference: LuaValue? {
        let bytes = nj_difference(state)
        return bytes.length > 0 ? LuaValue(json: bytes.array) : nil
    }

    // MARK: Resource usage

    /// Bytes that the state currently holds.
    public var memoryBytes: Int { nj_memory(state) }
    /// The maximum that it has held.
    public var peakMemoryBytes: Int { nj_peak_memory(state) }
    /// True after a `memory` failure, or if more than 7/8 of the memory is held between calls: build a new state and drop this one.
    public var needsRebuild: Bool { nj_needs_rebuild(state) }
    /// Modules that were loaded by `require` so far (a reload watches their files).
    public var requiredModules: [String] { bridge.requiredModules }
    /// Lua instructions of the last call, in steps of 100, including library charges.
    public var lastInstructions: Int { Int(nj_last_instructions(state)) }

    /// For benchmarks: makes protected calls of an empty function in this state, as a baseline for a filter's cost.
    public func callEmptyFunction(times: Int, isLua: Bool) { nj_measure_empty_call(state, Int64(times), isLua) }

    /// For benchmarks: removes this state's memory and time limits, to measure their cost.
    public func measureWithoutLimits() { nj_measure_without_limits(state) }

    @inline(__always)
    func reference(of use: LuaUse) -> Int32 { use.stateSerial == serial ? use.reference : -1 }

    func hookName(_ hook: LuaHook) -> String { "\(name).lua: \(hook.rawValue)" }
}

/// Throws the failure for a status of the C side.
@inline(__always)
func check(_ status: Int32, _ state: OpaquePointer) throws(LuaFailure) {
    guard status != NJ_OK else { return }
    throw failure(status, state)
}

@inline(never)
private func failure(_ status: Int32, _ state: OpaquePointer) -> LuaFailure {
    let kind: LuaFailureKind = switch Int(status) {
    case NJ_TIMEOUT: .timeout
    case NJ_MEMORY: .memory
    case NJ_RESULT: .result
    case NJ_LOAD: .load
    default: .error
    }
    return LuaFailure(kind: kind, message: String(decoding: nj_message(state).array, as: UTF8.self))
}
