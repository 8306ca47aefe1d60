import CLua

/// What one plugin state may use. Every value can be set per plugin; the host sets the ceiling.
public struct LuaLimits: Sendable, Equatable {
    /// Memory of the whole state (`memory`). 16 MiB holds the largest document a peer may send and a copy of it.
    public var memoryBytes = 16 << 20
    /// The largest single string or table block (`block`). What one Lua instruction can cost is bounded by it, and by the 8,192 keys that a
    /// table may have besides its sequence: keys that collide on purpose take the square of their number (0.05 s).
    public var blockBytes = 1 << 20
    /// Keys of one table besides its sequence (`keys of a table`).
    public static let tableKeys = Int(NJ_MOST_KEYS)
    /// The longest source of a plugin or module (`source`). Compiling runs no hook, so its size is its only bound: 128 KiB take 0.03 s.
    public var sourceBytes = 128 << 10
    /// Load-time code of a plugin with its modules, and reading the returned table (`load`).
    public var load = LuaCallLimits(cpuMilliseconds: 250, instructions: 50_000_000)
    /// Nesting of a value that a plugin returns, encodes, decodes or copies (`result depth`).
    public var resultDepth = 32
    /// Values in one returned, encoded, decoded or copied value (`result nodes`).
    public var resultNodes = 50_000
    /// JSON bytes of one returned value (`result bytes`). A merged document may be as large as the largest document accepted.
    public var resultBytes = 20 << 20
    /// One line given to `nightjar.log` or `print` (`log line`); the rest is cut.
    public var logLineBytes = 4096
    /// JSON of one line's fields (`log fields`); longer ones are left out, because a line must not fail a policy.
    public var logFieldBytes = 16 << 10
    /// Log lines of one call (`log lines of one call`); further ones are dropped and counted. The host limits lines per second.
    public var logLinesPerCall = 100
    /// `nightjar.get` in one call (`lookups`): each holds its document until the call ends.
    public var lookupsPerCall = 32

    public init() {}
}

/// What one call may use. A filter's defaults; `.resolver` for resolvers and sync functions.
public struct LuaCallLimits: Sendable, Equatable {
    /// CPU milliseconds of the calling thread.
    public var cpuMilliseconds: Int
    /// Lua instructions; expensive library functions are charged here too.
    public var instructions: Int

    public init(cpuMilliseconds: Int = 50, instructions: Int = 10_000_000) {
        self.cpuMilliseconds = cpuMilliseconds
        self.instructions = instructions
    }

    /// Filters and authenticators: asked for every document, so they must be short.
    public static let filter = LuaCallLimits()
    /// Resolvers and sync functions: rarer, and they build documents.
    public static let resolver = LuaCallLimits(cpuMilliseconds: 250, instructions: 50_000_000)
}

extension LuaLimits {
    /// For the C side; clamped so that no sum there overflows. A state needs some 100 KB to be set up at all.
    var bounds: nj_limits {
        func within(_ value: Int, _ low: Int, _ high: Int) -> Int { max(low, min(value, high)) }
        return nj_limits(
            memory: Int64(within(memoryBytes, 256 << 10, 1 << 40)), block: Int64(within(blockBytes, 64 << 10, 1 << 30)),
            source: Int64(within(sourceBytes, 0, 1 << 30)), result_depth: Int32(within(resultDepth, 1, Int(NJ_DEEPEST_RESULT))),
            result_nodes: Int32(within(resultNodes, 1, 1 << 30)), result_bytes: Int64(within(resultBytes, 2, 1 << 30)),
            log_line: Int32(within(logLineBytes, 16, 1 << 20)), log_fields: Int32(within(logFieldBytes, 2, 1 << 20)),
            log_lines: Int32(within(logLinesPerCall, 0, 1 << 20)),
            lookups: Int32(within(lookupsPerCall, 0, Int(NJ_MAX_LOOKUPS))))
    }
}
