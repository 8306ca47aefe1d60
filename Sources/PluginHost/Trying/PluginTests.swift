import Environment
import LuaRuntime

/// Runs a plugin's tests, `NAME.test.lua`, in the real sandbox.
package enum PluginTests {
    package struct Outcome: Sendable, Equatable {
        package var plugin: String
        package var name: String
        /// Nil if the case passed.
        package var failure: LuaFailure?
        package var milliseconds: Double
        /// For a failed `t.equal`: the differences, one field per line, such as "tags[2]: got 1, expected 2".
        package var differences: [String]

        /// The failure with its position.
        package var problem: PluginProblem? {
            failure.map { PluginProblem(plugin: plugin, luaMessage: $0.message, fallbackFile: "") }
        }
    }

    /// The tests of one plugin.
    package struct Suite: Sendable, Equatable {
        package var plugin: String
        /// Nil if there are none.
        package var file: String?
        package var outcomes: [Outcome]
        /// Set if the plugin or its tests do not load, or the tests have run out of time; `outcomes` are those before that.
        package var problem: PluginProblem?

        package var isPassed: Bool { problem == nil && outcomes.allSatisfy { $0.failure == nil } }
    }

    /// Runs every case of one candidate, ordered by name. Needs a thread with a large stack.
    static func run(_ candidate: PluginCandidate) -> Suite {
        var suite = Suite(plugin: candidate.name, file: candidate.tests?.file, outcomes: [], problem: nil)
        guard let tests = candidate.tests else { return suite }
        let host = LoadHost(candidate.environment, isTest: true)
        do throws(LuaFailure) {
            let state = try LuaPluginState(
                name: candidate.name, chunkName: candidate.file, source: candidate.source, modules: candidate.modules, host: host,
                limits: candidate.limits.state)
            // A case that passes no params gets the defaults.
            let defaults = (try? ParameterDeclarations(state.parameterDeclarations))?.completed(.missing) ?? []
            let context = LuaContext(
                params: .object(defaults), database: "test", scope: "_default", collection: "_default", remote: "test",
                plugin: candidate.name, version: candidate.version)
            let names = try state.loadTests(chunkName: tests.file, source: tests.source)
            let time = candidate.environment.time
            let start = threadNanoseconds()
            for name in names {
                if candidate.isStopping() {
                    suite.problem = PluginProblem(plugin: candidate.name, file: tests.file, message: "its tests were stopped")
                    break
                }
                let begun = time.monotonicNanoseconds()
                guard threadNanoseconds() - start < UInt64(max(1, candidate.testMilliseconds)) * 1_000_000 else {
                    suite.problem = PluginProblem(
                        plugin: candidate.name, file: tests.file,
                        message: "its tests take more processor time than tests = \(candidate.testMilliseconds) ms; "
                            + "\(names.count - suite.outcomes.count) of \(names.count) were not run")
                    break
                }
                host.passwords.newTurn()
                var outcome = Outcome(plugin: candidate.name, name: name, failure: nil, milliseconds: 0, differences: [])
                do throws(LuaFailure) {
                    try state.runTest(name, context: context, limits: candidate.limits.resolver)
                } catch {
                    outcome.failure = error
                    if let difference = state.lastDifference {
                        outcome.differences = ValueDifference.lines(got: difference["got"], expected: difference["expected"])
                    }
                }
                outcome.milliseconds = Double(time.monotonicNanoseconds() &- begun) / 1e6
                suite.outcomes.append(outcome)
            }
        } catch {
            suite.problem = PluginProblem(plugin: candidate.name, luaMessage: error.message, fallbackFile: tests.file)
        }
        return suite
    }

    /// Runs the tests of these plugins in a folder, or of all plugins, ordered by name.
    ///
    /// - Throws: `unknown` for a name that does not exist, `system` if the folder cannot be read.
    package static func run(
        folder: String, plugins names: [String] = [], limits: PluginHostLimits = PluginHostLimits(), environment: Environment
    ) async throws(PluginError) -> [Suite] {
        let folder = AbsolutePath.make(folder)
        let result = try await environment.runPlugin(name: "plugin-test", stackBytes: limits.stackBytes) {
            Result { () throws(PluginError) in
                let scan = FolderScan.read(folder, limits)
                if let failure = scan.failure { throw .system(failure) }
                let all = Set(scan.sources.keys).union(scan.refused.keys).sorted()
                var suites: [Suite] = []
                for name in names.isEmpty ? all : names {
                    if let problem = scan.refused[name] {
                        suites.append(Suite(plugin: name, file: nil, outcomes: [], problem: problem))
                    } else if let source = scan.sources[name] {
                        suites.append(run(source, limits, environment))
                    } else {
                        guard PluginName.isValid(name) else { throw .invalidName(name) }
                        throw .unknown(plugin: name, folder: folder, nearest: PluginName.nearest(to: name, among: all))
                    }
                }
                return suites
            }
        }
        return try result.get()
    }

    /// A plugin without tests is at least loaded.
    private static func run(_ source: PluginSource, _ limits: PluginHostLimits, _ environment: Environment) -> Suite {
        switch VersionLoader.load(source, host: limits, pool: nil, environment) {
        case .failure(let problem): Suite(plugin: source.name, file: source.tests?.path, outcomes: [], problem: problem)
        case .success(let version): run(PluginCandidate(version, limits, environment))
        }
    }
}

/// Puts a version in force only if its own tests pass.
package struct ProofByTests: PluginProof {
    package init() {}

    package func prove(_ candidate: PluginCandidate) -> PluginProblem? {
        let suite = PluginTests.run(candidate)
        if let problem = suite.problem { return problem }
        guard let failed = suite.outcomes.first(where: { $0.failure != nil }), let failure = failed.failure else { return nil }
        var problem = PluginProblem(
            plugin: candidate.name, luaMessage: failure.message, fallbackFile: candidate.tests?.file ?? candidate.file)
        problem.message = "test \"\(failed.name)\" failed: \(problem.message)"
        return problem
    }
}
