/// How long an orderly stop waits for things, in seconds.
enum StopLimits {
    /// Announcing the departure of listeners that were announced.
    static let goodbye = 1
    /// Connections of listeners and replicators: an unresponsive peer gets no longer than this.
    static let connections = 4
    /// Nanoseconds for the final calls of observer plugins.
    static let observers: UInt64 = 1_000_000_000
    /// Nanoseconds for plugins and databases behind them.
    static let rest: UInt64 = 500_000_000
    /// What README promises for SIGTERM.
    static let promised = 5
}
