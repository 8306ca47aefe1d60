/// What a stop in order waits for, in seconds.
enum StopLimits {
    /// The goodbye of listeners that were announced.
    static let goodbye = 1
    /// Connections of listeners and replicators: a peer that does not answer is not waited for longer.
    static let connections = 4
    /// Nanoseconds for plugins that hear what replicators did.
    static let observers: UInt64 = 1_000_000_000
    /// Nanoseconds for plugins and databases behind them.
    static let rest: UInt64 = 500_000_000
    /// What README promises of SIGTERM.
    static let promised = 5
}
