import Environment
import LuaRuntime

/// A final check before a version is put in force, such as the plugin's own tests.
package protocol PluginProof: Sendable {
    /// Called on the host's own thread. Returning a problem refuses the version.
    func prove(_ candidate: PluginCandidate) -> PluginProblem?
}

/// A version that compiles and suits all its uses.
package struct PluginCandidate: Sendable {
    package var name: String
    package var version: String
    /// Relative to the plugins folder.
    package var file: String
    package var source: [UInt8]
    /// `NAME.test.lua` or `NAME/init.test.lua`.
    package var tests: (file: String, source: [UInt8])?
    package var modules: any LuaModuleLoader
    package var limits: PluginLimits
    /// For all of its tests together.
    package var testMilliseconds: Int
    /// The environment in which its tests run.
    package var environment: Environment
    /// Whether the tests should be abandoned.
    package var isStopping: @Sendable () -> Bool = { false }
}

/// Accepts every version.
package struct NoPluginProof: PluginProof {
    package init() {}
    package func prove(_ candidate: PluginCandidate) -> PluginProblem? { nil }
}
