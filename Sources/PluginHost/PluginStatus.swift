import LuaRuntime

/// One plugin as `nightjar status` and the admin API show it.
package struct PluginStatus: Sendable, Equatable {
    package enum State: String, Sendable {
        /// The version in the folder is in force.
        case active
        /// The version in the folder was refused; an older one may be in force.
        case refused
        /// The plugin's file is gone; the last version is in force.
        case missing
        /// The version in the folder has tests that have not run before; whatever needs the plugin waits until they are over.
        case testing
        /// A use keeps failing; it is only probed occasionally, and what it should judge is held.
        case failing
    }

    /// The refused version in the folder.
    package struct Refusal: Sendable, Equatable {
        package var version: String
        /// `file:line: what is wrong`.
        package var error: String
        /// The file of the signature that is missing or wrong; nil if something else is.
        package var signature: String?
    }

    /// How often a limit was reached.
    package struct LimitHits: Sendable, Equatable {
        package var timeouts: UInt64 = 0
        package var memory: UInt64 = 0
        package var results: UInt64 = 0
        package var logLinesDropped: UInt64 = 0
        package var statesRebuilt: UInt64 = 0
    }

    /// A use that is not called because it keeps failing.
    package struct Failing: Sendable, Equatable {
        package var usedBy: String
        /// Consecutive failures.
        package var failures: Int
        /// How long it has not been called.
        package var seconds: Int
        /// The last error, `kind: file:line: message`.
        package var error: String
        /// The only peer for which it is not called; nil if it is not called for anybody.
        package var peer: String?
    }

    /// The counts of one hook, over all versions.
    package struct Hook: Sendable, Equatable {
        /// As in the plugin's table: "push_filter".
        package var name: String
        package var calls: UInt64
        package var rejected: UInt64
        /// What a failing use was not called for.
        package var notAsked: UInt64
        /// Failed calls by kind: "plugin_error" and so on, in a fixed order.
        package var errors: [(kind: String, count: UInt64)]
        package var p50Milliseconds: Double?
        package var p99Milliseconds: Double?
        /// Calls by duration: counts with each bucket's upper bound in seconds, which is nil for the last. Not cumulative.
        package var durations: [(bound: Double?, count: UInt64)]
        package var seconds: Double

        package static func == (a: Hook, b: Hook) -> Bool {
            a.name == b.name && a.calls == b.calls && a.rejected == b.rejected && a.notAsked == b.notAsked && a.seconds == b.seconds
                && a.errors.map(\.count) == b.errors.map(\.count) && a.durations.map(\.count) == b.durations.map(\.count)
        }
    }

    package var name: String
    package var description: String?
    /// Content hash of the version in force; nil if there is none.
    package var version: String?
    /// How many versions have been in force.
    package var generation: UInt64
    package var state: State
    /// Names of hooks, ascending.
    package var hooks: [String]
    /// "replicator hub push_filter", ascending.
    package var usedBy: [String]
    package var calls: UInt64
    /// Failed calls, whose documents are held.
    package var errors: UInt64
    /// Documents that a filter, or logins that an authenticator, rejected.
    package var rejected: UInt64
    /// What a failing use was not called for, and is held.
    package var notAsked: UInt64
    /// Milliseconds; nil before the first call. Accurate to within an eighth.
    package var p99Milliseconds: Double?
    package var limitHits: LimitHits
    /// Memory of its Lua states.
    package var memoryBytes: Int
    /// Its Lua states, one for each worker that has run it.
    package var states: Int
    /// Hooks that have been called, ordered by name.
    package var perHook: [Hook]
    package var refused: Refusal?
    /// Nil unless a rollback is in effect.
    package var rolledBack: PluginRollback?
    /// Versions that a rollback can name, in the order in which they came into force.
    package var keptVersions: [KeptVersion]
    package var failing: [Failing]
    /// Logins that an authenticator could not judge: for each use, the latest in the last quarter of an hour: `used_by: kind: file:line:
    /// message`.
    package var loginFailures: [String] = []
    /// Files given as parameters that cannot be read at the moment.
    package var parameterProblems: [String]
    /// Places where it is only a candidate, ascending.
    package var shadows: [Shadow] = []
    /// It is used only as a candidate, so nothing is held because of its problems.
    package var isOnlyShadow = false
    /// The last failure of the version in force, `kind: file:line: message`.
    package var lastFailure: String?

    /// Only its tests have changed, and they fail: the version in the folder is the one in force.
    package var failsOnlyTests: Bool { refused != nil && refused?.signature == nil && version != nil && refused?.version == version }
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
package struct ReloadVerdict: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case unchanged
        case reloaded
        case refused(PluginProblem)
        /// The file is gone; what was in force still is.
        case missing
        /// An operator's rollback is in effect.
        case rolledBack(PluginRollback)
    }

    package var plugin: String
    /// How many versions have been in force.
    package var generation: UInt64
    /// The version in force.
    package var version: String?
    package var outcome: Outcome
}

/// A plugin in force as `list()` shows it.
package struct PluginListing: Sendable, Equatable {
    package var name: String
    /// Relative to the plugins folder.
    package var file: String
    package var version: String
    package var description: String?
    package var hooks: [String]
    package var parameters: [ParameterDeclaration]
}
