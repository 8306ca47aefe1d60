import LuaRuntime

/// One plugin as `nightjar status` and the admin API show it.
public struct PluginStatus: Sendable, Equatable {
    public enum State: String, Sendable {
        /// The version in the folder is in force.
        case active
        /// The version in the folder is not taken; an older one may be in force.
        case refused
        /// The plugin's file is gone; the last version is in force.
        case missing
        /// The version in the folder has tests that have not run before; what needs the plugin waits until they are over.
        case testing
        /// A use of it fails again and again; it is not called but once in a while, and what it should judge is held.
        case failing
    }

    /// The version in the folder that was not taken.
    public struct Refusal: Sendable, Equatable {
        public var version: String
        /// `file:line: what is wrong`.
        public var error: String
    }

    /// How often a limit was reached.
    public struct LimitHits: Sendable, Equatable {
        public var timeouts: UInt64 = 0
        public var memory: UInt64 = 0
        public var results: UInt64 = 0
        public var logLinesDropped: UInt64 = 0
        public var statesRebuilt: UInt64 = 0
    }

    /// A use that is not called because it keeps failing.
    public struct Failing: Sendable, Equatable {
        public var usedBy: String
        /// In a row.
        public var failures: Int
        /// Since it is not called any more.
        public var seconds: Int
        /// The last one, `kind: file:line: message`.
        public var error: String
    }

    /// The counts of one hook, over all versions.
    public struct Hook: Sendable, Equatable {
        /// As in the plugin's table: "push_filter".
        public var name: String
        public var calls: UInt64
        public var rejected: UInt64
        /// What a failing use was not asked about.
        public var notAsked: UInt64
        /// Failed calls by kind: "plugin_error" and so on, each kind in its place.
        public var errors: [(kind: String, count: UInt64)]
        public var p50Milliseconds: Double?
        public var p99Milliseconds: Double?
        /// Calls by duration: each with the upper bound of its bucket in seconds, the last without one. Not cumulative.
        public var durations: [(bound: Double?, count: UInt64)]
        public var seconds: Double

        public static func == (a: Hook, b: Hook) -> Bool {
            a.name == b.name && a.calls == b.calls && a.rejected == b.rejected && a.notAsked == b.notAsked && a.seconds == b.seconds
                && a.errors.map(\.count) == b.errors.map(\.count) && a.durations.map(\.count) == b.durations.map(\.count)
        }
    }

    public var name: String
    public var description: String?
    /// Content hash of the version in force; nil when there is none.
    public var version: String?
    /// Counts the versions that came into force.
    public var generation: UInt64
    public var state: State
    /// Names of hooks, ascending.
    public var hooks: [String]
    /// "replicator hub push_filter", ascending.
    public var usedBy: [String]
    public var calls: UInt64
    /// Failed calls; their documents are held.
    public var errors: UInt64
    /// Documents that a filter, or logins that an authenticator, said no to.
    public var rejected: UInt64
    /// What a failing use was not asked about; held.
    public var notAsked: UInt64
    /// Milliseconds; nil before the first call. Within an eighth of the true value.
    public var p99Milliseconds: Double?
    public var limitHits: LimitHits
    /// Held by its Lua states now.
    public var memoryBytes: Int
    /// Lua states that are alive now, one for each worker that has run it.
    public var states: Int
    /// Ascending by name; hooks that have been called.
    public var perHook: [Hook]
    public var refused: Refusal?
    /// Nil unless a rollback holds.
    public var rolledBack: PluginRollback?
    /// Versions that a rollback can name, in the order they came into force.
    public var keptVersions: [KeptVersion]
    public var failing: [Failing]
    /// Logins that an authenticator could not judge, of each use the last one in a quarter of an hour: `used_by: kind: file:line: message`.
    public var loginFailures: [String] = []
    /// Files given as parameters that cannot be read now.
    public var parameterProblems: [String]
    /// The last failure of the version in force, `kind: file:line: message`.
    public var lastFailure: String?
}

extension PluginStatus.Hook {
    init(_ name: String, _ counts: CallStatistics.Hook) {
        self.init(
            name: name, calls: counts.calls, rejected: counts.rejected, notAsked: counts.notAsked,
            errors: zip(LuaFailureKind.all, counts.errors).map { ($0.rawValue, $1) },
            p50Milliseconds: counts.latencies.quantile(0.5).map { $0 / 1e6 }, p99Milliseconds: counts.latencies.quantile(0.99).map { $0 / 1e6 },
            durations: counts.durations.counts.enumerated().map { index, count in
                (index < DurationBuckets.bounds.count ? Double(DurationBuckets.bounds[index]) / 1e9 : nil, count)
            },
            seconds: Double(counts.durations.nanoseconds) / 1e9)
    }
}

/// What `reload` did with one plugin.
public struct ReloadVerdict: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
        case unchanged
        case reloaded
        case refused(PluginProblem)
        /// The file is gone; what was in force still is.
        case missing
        /// Another version is in force by the operator's word.
        case rolledBack(PluginRollback)
    }

    public var plugin: String
    /// Counts the versions that came into force.
    public var generation: UInt64
    /// The version in force.
    public var version: String?
    public var outcome: Outcome
}

/// A plugin in force as `list()` shows it.
public struct PluginListing: Sendable, Equatable {
    public var name: String
    /// Relative to the plugins folder.
    public var file: String
    public var version: String
    public var description: String?
    public var hooks: [String]
    public var parameters: [ParameterDeclaration]
}
