/// Limits of one plugin where they differ from the host's defaults. nil: the default.
public struct PluginLimitSettings: Sendable, ConfigurationSection {
    public var name = Located("")
    /// Bytes of one plugin state. Host's default 16 MiB.
    public var memory: Located<Int>?
    /// Milliseconds of CPU for one filter or authenticator call. Host's default 50.
    public var cpuMilliseconds: Located<Int>?
    /// Instructions of one filter or authenticator call. Host's default 10 million.
    public var instructions: Located<Int>?
    /// Milliseconds of CPU for one resolver or sync call. Host's default 250.
    public var resolverCPUMilliseconds: Located<Int>?
    /// Instructions of one resolver or sync call. Host's default 50 million.
    public var resolverInstructions: Located<Int>?
    /// Log lines a second. Host's default 100.
    public var logLinesPerSecond: Located<Int>?
    public internal(set) var position = SourcePosition.none

    public init() {}

    static let sectionName = "plugin_limit"
    // The upper bounds are the ceiling: what one plugin may take before it endangers the agent.
    static let keys: [Key<PluginLimitSettings>] = [
        Key("memory", optional: \.memory, Form<Int>.bytes((1 << 20)...(1 << 30)).located, "Memory of one plugin state (default 16MiB)."),
        Key("cpu_ms", optional: \.cpuMilliseconds, Form<Int>.integer(1...10_000, "milliseconds").located,
            "CPU of one filter or authenticator call, in milliseconds (default 50)."),
        Key("instructions", optional: \.instructions, Form<Int>.integer(10_000...10_000_000_000).located,
            "Instructions of one filter or authenticator call (default 10000000)."),
        Key("resolver_cpu_ms", optional: \.resolverCPUMilliseconds, Form<Int>.integer(1...10_000, "milliseconds").located,
            "CPU of one resolver or sync call, in milliseconds (default 250)."),
        Key("resolver_instructions", optional: \.resolverInstructions, Form<Int>.integer(10_000...10_000_000_000).located,
            "Instructions of one resolver or sync call (default 50000000)."),
        Key("log_lines", optional: \.logLinesPerSecond, Form<Int>.integer(0...10_000).located, "Log lines a second (default 100)."),
    ]

    public static func == (left: Self, right: Self) -> Bool { left.name == right.name && areSame(left, right) }
}
