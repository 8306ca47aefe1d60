import LuaRuntime

/// The resources that the plugin host may use. The error for exceeding a limit names it.
package struct PluginHostLimits: Sendable {
    /// Threads that run Lua. Two, so that a filter and an authenticator need not wait for each other, while an edge device has few cores.
    package var workers = 2
    /// Stack of each thread (`stack`). Lua's C calls use up to 0.4 MB; the host's frames are in addition.
    package var stackBytes = 2 << 20
    /// Waiting calls (`queued calls`), each for a batch of documents, a conflict or a login. Callers wait for an answer, so this limit is
    /// reached only if that many sessions call concurrently.
    package var queuedCalls = 10_000
    /// How long one batch may occupy a worker before other plugins get a turn.
    package var turnMilliseconds = 20
    /// Uses of one plugin (`uses of a plugin`): all replicators, collections and listeners that name it.
    package var usesPerPlugin = 1_000
    /// Prepared `ctx` tables in one state (`contexts`); the oldest is dropped. A listener needs one per connected peer.
    package var contextsPerState = 64

    /// Plugins in the folder (`plugins`).
    package var plugins = 256
    /// Files in the folder that are examined (`files`), so that a wrong folder does not lead to a traversal of the whole disk.
    package var files = 4_096
    /// Nesting depth of folders below a plugin's own folder or lib.
    package var folderDepth = 4
    /// Total size of one plugin's files (`plugin bytes`).
    package var pluginBytes = 1 << 20
    /// A file passed to a plugin as a parameter (`parameter file`); it must fit into one Lua string.
    package var parameterFileBytes = 512 << 10

    /// How long the folder must be unchanged before it is read: an editor or `git pull` writes several files.
    package var quietMilliseconds = 100
    /// A folder that keeps changing is read after this time.
    package var longestQuietMilliseconds = 2_000
    /// The folder is read at this interval even without notifications, as a safety net (network file systems send none).
    package var rescanSeconds = 30

    /// Log lines of one plugin per second (`log lines`); any more are dropped and counted.
    package var logLinesPerSecond = 100
    /// Distinct failures that are logged for one version of a plugin; all are counted.
    package var loggedFailuresPerVersion = 32

    /// Consecutive failed calls after which a use of a plugin is no longer called (`breaker failures`). A failing filter may cost its whole
    /// time limit for each document; fifty are enough to distinguish a broken plugin from a few unusual documents.
    package var breakerFailures = 50
    /// Interval at which a failing use is probed with one call (`breaker probe`), so that it recovers automatically.
    package var breakerProbeSeconds = 60
    /// Size of the document or conflict that is kept for such a probe (`breaker sample`); a larger one is read from the database again.
    package var breakerSampleBytes = 1 << 20

    /// Stored versions of one plugin for rollbacks (`kept versions`), including the one in force.
    package var keptVersions = 10
    /// CPU time for all tests of one plugin, in milliseconds (`tests`): no other plugin is reloaded while they run.
    package var testMilliseconds = 10_000

    /// The most that a plugin may request in its own `limits` (`ceiling`), unless the configuration sets a limit for it.
    package var ceiling = PluginLimits.ceiling
    /// `nightjar.password` operations in one call (`password operations`): a login needs one, or a second one against a dummy hash. Each
    /// takes some 60 ms and 32 MiB.
    package static let passwordOperations = 4
    /// Distinct combinations of metric name and labels of one plugin (`metric series`); an unlimited number would exhaust the agent's
    /// memory.
    package static let metricSeries = 200
    /// Labels of one metric (`labels`).
    package static let metricLabels = 8

    /// The limits of a plugin that the configuration does not mention.
    package var plugin = PluginLimits()
    /// Limits that the configuration sets for particular plugins, by name.
    package var perPlugin: [String: PluginLimits] = [:]

    package init() {}

    func limits(for name: String) -> PluginLimits { perPlugin[name] ?? plugin }
    func logLines(for name: String) -> Int { limits(for: name).logLinesPerSecond ?? logLinesPerSecond }
}

/// The resources that one plugin may use.
package struct PluginLimits: Sendable, Equatable {
    /// Memory, source size and result sizes of one state.
    package var state = LuaLimits()
    package var filter = LuaCallLimits.filter
    package var resolver = LuaCallLimits.resolver
    package var authenticator = LuaCallLimits.filter
    /// Log lines per second; nil for the host's `logLinesPerSecond`.
    package var logLinesPerSecond: Int?

    package init() {}

    /// Ten times the default time and four times the default memory: enough for heavy work, and still no danger to a small device.
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
