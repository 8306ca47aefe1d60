/// Limits of one plugin that differ from the host's defaults. nil means the default.
package struct PluginLimitSettings: Sendable, ConfigurationSection {
    package var name = Located("")
    /// Bytes of memory for one plugin state. The host's default is 16 MiB.
    package var memory: Located<Int>?
    /// Milliseconds of CPU time for one filter or authenticator call. The host's default is 50.
    package var cpuMilliseconds: Located<Int>?
    /// Instructions in one filter or authenticator call. The host's default is 10 million.
    package var instructions: Located<Int>?
    /// Milliseconds of CPU time for one resolver or sync call. The host's default is 250.
    package var resolverCPUMilliseconds: Located<Int>?
    /// Instructions in one resolver or sync call. The host's default is 50 million.
    package var resolverInstructions: Located<Int>?
    /// Log lines per second. The host's default is 100.
    package var logLinesPerSecond: Located<Int>?
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "plugin_limit"
    // The upper bounds are the ceiling: what one plugin may use without endangering the agent.
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
        Key("log_lines", optional: \.logLinesPerSecond, Form<Int>.integer(0...10_000).located, "Log lines per second (default 100)."),
    ]

    package static func == (left: Self, right: Self) -> Bool { left.name == right.name && areSame(left, right) }
}
