import Environment
import LuaRuntime

/// A last question before a version comes into force, such as the plugin's own tests.
public protocol PluginProof: Sendable {
    /// Asked on the host's own thread. A problem refuses the version.
    func prove(_ candidate: PluginCandidate) -> PluginProblem?
}

/// A version that compiles and fits all its uses.
public struct PluginCandidate: Sendable {
    public var name: String
    public var version: String
    /// Relative to the plugins folder.
    public var file: String
    public var source: [UInt8]
    /// `NAME.test.lua` or `NAME/init.test.lua`.
    public var tests: (file: String, source: [UInt8])?
    public var modules: any LuaModuleLoader
    public var limits: PluginLimits
    /// For all its tests together.
    public var testMilliseconds: Int
    /// Where its tests run.
    public var environment: Environment
    /// The tests are not wanted any more.
    public var isStopping: @Sendable () -> Bool = { false }
}

/// Asks nothing.
public struct NoPluginProof: PluginProof {
    public init() {}
    public func prove(_ candidate: PluginCandidate) -> PluginProblem? { nil }
}
