/// One plugin as `nightjar status` and the admin API show it.
public struct PluginStatus: Sendable, Equatable {
    public enum State: String, Sendable {
        /// The version in the folder is in force.
        case active
        /// The version in the folder is not taken; an older one may be in force.
        case refused
        /// The plugin's file is gone; the last version is in force.
        case missing
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
    /// Milliseconds; nil before the first call. Within an eighth of the true value.
    public var p99Milliseconds: Double?
    public var limitHits: LimitHits
    public var refused: Refusal?
    /// Files given as parameters that cannot be read now.
    public var parameterProblems: [String]
    /// The last failure, `kind: file:line: message`.
    public var lastFailure: String?
}

/// What `reload` did with one plugin.
public struct ReloadVerdict: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
        case unchanged
        case reloaded
        case refused(PluginProblem)
        /// The file is gone; what was in force still is.
        case missing
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
