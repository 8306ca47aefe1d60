import Environment
import LuaRuntime

/// A last question before a version comes into force, such as the plugin's own tests.
package protocol PluginProof: Sendable {
    /// Asked on the host's own thread. A problem refuses the version.
    func prove(_ candidate: PluginCandidate) -> PluginProblem?
}

/// A version that compiles and fits all its uses.
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
    /// For all its tests together.
    package var testMilliseconds: Int
    /// Where its tests run.
    package var environment: Environment
    /// The tests are not wanted any more.
    package var isStopping: @Sendable () -> Bool = { false }
}

/// Asks nothing.
package struct NoPluginProof: PluginProof {
    package init() {}
    package func prove(_ candidate: PluginCandidate) -> PluginProblem? { nil }
}
