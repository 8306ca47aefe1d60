import LuaRuntime

/// Runs `NAME.test.lua`, the tests beside a plugin, in the real sandbox.
public enum PluginTests {
    public struct Outcome: Sendable, Equatable {
        public var plugin: String
        public var name: String
        /// Nil if the case passed.
        public var failure: LuaFailure?
        public var milliseconds: Double
    }

    /// Every case of one candidate, ascending by name. Needs a thread with a large stack.
    ///
    /// - Throws: where plugin or tests do not load.
    static func run(_ candidate: PluginCandidate) throws(LuaFailure) -> [Outcome] {
        guard let tests = candidate.tests else { return [] }
        let host = LoadHost()
        let state = try LuaPluginState(
            name: candidate.name, chunkName: candidate.file, source: candidate.source, modules: candidate.modules, host: host,
            limits: candidate.limits.state)
        // A case that gives no params sees the defaults.
        let defaults = (try? ParameterDeclarations(state.parameterDeclarations))?.completed(.missing) ?? []
        let context = LuaContext(
            params: .object(defaults), database: "test", scope: "_default", collection: "_default", remote: "test", plugin: candidate.name,
            version: candidate.version)
        var outcomes: [Outcome] = []
        for name in try state.loadTests(chunkName: tests.file, source: tests.source) {
            let begun = monotonicNanoseconds()
            var outcome = Outcome(plugin: candidate.name, name: name, failure: nil, milliseconds: 0)
            host.passwords.newTurn()
            do throws(LuaFailure) {
                try state.runTest(name, context: context, limits: candidate.limits.resolver)
            } catch {
                outcome.failure = error
            }
            outcome.milliseconds = Double(monotonicNanoseconds() &- begun) / 1e6
            outcomes.append(outcome)
        }
        return outcomes
    }

    /// Runs the tests of these plugins of a folder, or of all.
    ///
    /// - Throws: `unknown` for a name that is not there, `refused` where a plugin or its test file does not load.
    public static func run(
        folder: String, plugins names: [String] = [], limits: PluginHostLimits = PluginHostLimits()
    ) async throws(PluginError) -> [Outcome] {
        let folder = AbsolutePath.make(folder)
        let result = try await PluginThread.run(name: "plugin-test", stackBytes: limits.stackBytes) {
            Result { () throws(PluginError) in
                let scan = FolderScan.read(folder, limits)
                if let failure = scan.failure { throw .system(failure) }
                var outcomes: [Outcome] = []
                for name in names.isEmpty ? scan.sources.keys.sorted() : names {
                    if let problem = scan.refused[name] { throw .refused(plugin: name, problem: problem) }
                    guard let source = scan.sources[name] else {
                        throw .unknown(
                            plugin: name, folder: folder, nearest: PluginName.nearest(to: name, among: scan.sources.keys.sorted()))
                    }
                    do throws(LuaFailure) {
                        outcomes += try run(PluginCandidate(source, limits.limits(for: name)))
                    } catch {
                        throw .refused(
                            plugin: name, problem: PluginProblem(plugin: name, luaMessage: error.message, fallbackFile: source.main.path))
                    }
                }
                return outcomes
            }
        }
        return try result.get()
    }
}

/// A version comes into force only if its own tests pass.
public struct ProofByTests: PluginProof {
    public init() {}

    public func prove(_ candidate: PluginCandidate) -> PluginProblem? {
        let file = candidate.tests?.file ?? candidate.file
        do {
            guard let failed = try PluginTests.run(candidate).first(where: { $0.failure != nil }), let failure = failed.failure else { return nil }
            var problem = PluginProblem(plugin: candidate.name, luaMessage: failure.message, fallbackFile: file)
            problem.message = "test \"\(failed.name)\" failed: \(problem.message)"
            return problem
        } catch {
            return PluginProblem(plugin: candidate.name, luaMessage: error.message, fallbackFile: file)
        }
    }
}
