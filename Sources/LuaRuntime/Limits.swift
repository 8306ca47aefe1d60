import CLua

/// The limits of one plugin state. Each can be set per plugin; the host sets the maximum.
public struct LuaLimits: Sendable, Equatable {
    /// Memory of the whole state, in bytes (`memory`). 16 MiB holds the largest document that a peer may send and a copy of it.
    public var memoryBytes = 16 << 20
    /// The largest single string or table block, in bytes (`block`). It bounds the cost of one Lua instruction, together with the limit of 8,192 keys
    /// of a table outside its sequence: colliding keys cost the square of their number (0.05 s).
    public var blockBytes = 1 << 20
    /// Keys of one table outside its sequence (`keys of a table`).
    public static let tableKeys = Int(NJ_MOST_KEYS)
    /// The longest source of a plugin or module, in bytes (`source`). Compiling is limited only by the size of the source: 128 KiB take 0.03 s.
    public var sourceBytes = 128 << 10
    /// Limits for load-time code of a plugin with its modules, and for reading the returned table (`load`).
    public var load = LuaCallLimits(cpuMilliseconds: 250, instructions: 50_000_000)
    /// Nesting of a value that a plugin returns, encodes, decodes or copies (`result depth`).
    public var resultDepth = 32
    /// Values in one returned, encoded, decoded or copied value (`result nodes`).
    public var resultNodes = 50_000
    /// JSON text of one returned value, in bytes (`result bytes`). A merged document may be as large as the largest document accepted.
    public var resultBytes = 20 << 20
    /// One line passed to `nightjar.log` or `print`, in bytes (`log line`); the rest is cut off.
    public var logLineBytes = 4096
    /// JSON text of one line's fields, in bytes (`log fields`); longer fields are omitted, because a log line must not make a policy fail.
    public var logFieldBytes = 16 << 10
    /// Log lines of one call (`log lines of one call`); further ones are dropped and counted. The host limits the rate of lines.
    public var logLinesPerCall = 100
    /// Calls of `nightjar.get` in one call (`lookups`): each holds its document until the call ends.
    public var lookupsPerCall = 32

    public init() {}
}

/// The limits of one call. The defaults are those of a filter; `.resolver` is for resolvers and sync functions.
public struct LuaCallLimits: Sendable, Equatable {
    /// CPU time of the calling thread, in milliseconds.
    public var cpuMilliseconds: Int
    /// Lua instructions; expensive library functions are charged as instructions.
    public var instructions: Int

    public init(cpuMilliseconds: Int = 50, instructions: Int = 10_000_000) {
        self.cpuMilliseconds = cpuMilliseconds
        self.instructions = instructions
    }

    /// For filters and authenticators: they are called for every document, so they must be short.
    public static let filter = LuaCallLimits()
    /// For resolvers and sync functions: they run less often, and build documents.
    public static let resolver = LuaCallLimits(cpuMilliseconds: 250, instructions: 50_000_000)
}

extension LuaLimits {
    /// The C side's form, clamped so that no sum there overflows. A state needs some 100 KB just to be set up.
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
