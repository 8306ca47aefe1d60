import LuaRuntime

/// What the plugin host may use. Each limit is named in the error it causes.
package struct PluginHostLimits: Sendable {
    /// Threads that run Lua. Two: a filter and an authenticator do not wait for each other, and an edge device has few cores.
    package var workers = 2
    /// Stack of each thread (`stack`). Lua's C calls use up to 0.4 MB; the host's frames come on top.
    package var stackBytes = 2 << 20
    /// Calls that may wait (`queued calls`), each a batch of documents, a conflict or a login. Callers wait for an answer, so this
    /// is only reached when as many sessions ask at once.
    package var queuedCalls = 10_000
    /// How long one batch keeps a worker before the other plugins have their turn.
    package var turnMilliseconds = 20
    /// Uses of one plugin (`uses of a plugin`): every replicator, collection and listener that names it.
    package var usesPerPlugin = 1_000
    /// Prepared `ctx` tables in one state (`contexts`); the oldest is dropped. A listener needs one for each connected peer.
    package var contextsPerState = 64

    /// Plugins in the folder (`plugins`).
    package var plugins = 256
    /// Files in the folder that are looked at (`files`), so that a wrong folder does not become a walk through the disk.
    package var files = 4_096
    /// Depth of subfolders below a plugin's own folder or lib.
    package var folderDepth = 4
    /// All files of one plugin (`plugin bytes`).
    package var pluginBytes = 1 << 20
    /// A file handed to a plugin as a parameter (`parameter file`); it must fit into one Lua string.
    package var parameterFileBytes = 512 << 10

    /// Quiet time after a change in the folder: an editor or `git pull` writes several files.
    package var quietMilliseconds = 100
    /// A folder that never gets quiet is read after this time.
    package var longestQuietMilliseconds = 2_000
    /// The folder is read this often even without any notice, as a safety net (network file systems send none).
    package var rescanSeconds = 30

    /// Log lines of one plugin in a second (`log lines`); further ones are dropped and counted.
    package var logLinesPerSecond = 100
    /// Different failures that are logged for one version of a plugin; all are counted.
    package var loggedFailuresPerVersion = 32

    /// Failed calls in a row after which a use of a plugin is not called any more (`breaker failures`). A failing filter costs up to
    /// its whole time limit a document; fifty are enough to tell a broken plugin from a few strange documents.
    package var breakerFailures = 50
    /// One call is tried this often while a use is failing (`breaker probe`), so that it recovers by itself.
    package var breakerProbeSeconds = 60
    /// The document or conflict that is kept for such a call (`breaker sample`); a larger one is read from the database again.
    package var breakerSampleBytes = 1 << 20

    /// Versions of one plugin that are kept for a rollback (`kept versions`), the one in force among them.
    package var keptVersions = 10
    /// Processor time of all tests of one plugin, in milliseconds (`tests`): while they run, no other plugin is reloaded.
    package var testMilliseconds = 10_000

    /// The most that a plugin can ask for in its own `limits` (`ceiling`), where the configuration says nothing about it.
    package var ceiling = PluginLimits.ceiling
    /// `nightjar.password` in one call (`password operations`): a login needs one, or a second against a made-up hash. Each takes some 60 ms
    /// and 32 MiB.
    package static let passwordOperations = 4
    /// Different metric names with different labels of one plugin (`metric series`); more would grow the agent's memory without end.
    package static let metricSeries = 200
    /// Labels of one metric (`labels`).
    package static let metricLabels = 8

    /// What a plugin gets that the configuration says nothing about.
    package var plugin = PluginLimits()
    /// What the configuration sets for single plugins, by name.
    package var perPlugin: [String: PluginLimits] = [:]

    package init() {}

    func limits(for name: String) -> PluginLimits { perPlugin[name] ?? plugin }
    func logLines(for name: String) -> Int { limits(for: name).logLinesPerSecond ?? logLinesPerSecond }
}

/// What one plugin may use.
package struct PluginLimits: Sendable, Equatable {
    /// Memory, source size and sizes of results of one state.
    package var state = LuaLimits()
    package var filter = LuaCallLimits.filter
    package var resolver = LuaCallLimits.resolver
    package var authenticator = LuaCallLimits.filter
    /// Log lines in a second; nil for the host's `logLinesPerSecond`.
    package var logLinesPerSecond: Int?

    package init() {}

    /// Ten times the time and four times the memory of the defaults: enough for heavy work, and still no danger to a small device.
    package static let ceiling: PluginLimits = {
        var limits = PluginLimits()
        limits.state.memoryBytes = 64 << 20
        limits.filter = LuaCallLimits(cpuMilliseconds: 500, instructions: 100_000_000)
        limits.authenticator = limits.filter
        limits.resolver = LuaCallLimits(cpuMilliseconds: 2_500, instructions: 500_000_000)
        limits.logLinesPerSecond = 1_000
        return limits
    }()
}
