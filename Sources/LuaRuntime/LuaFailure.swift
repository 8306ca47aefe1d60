/// Why a call or a load failed. Determined by the host's own flags, never by the text of an error.
public enum LuaFailureKind: String, Sendable {
    /// The plugin raised an error, or the host was used wrongly (the message says so).
    case error = "plugin_error"
    /// CPU time or instructions are exhausted.
    case timeout = "plugin_timeout"
    /// The state's memory or its block limit is exhausted; the state must be rebuilt.
    case memory = "plugin_memory"
    /// The hook returned something that its contract does not permit.
    case result = "plugin_result"
    /// The source does not compile or does not return a table of hooks.
    case load = "plugin_load"
}

/// A failed call or load. For the operator only; peers learn nothing of it.
public struct LuaFailure: Error, Sendable, Equatable {
    public var kind: LuaFailureKind
    /// `by-owner.lua:3: …` if the line is known. One line, valid UTF-8, control characters escaped, at most 2 KiB.
    public var message: String

    public init(kind: LuaFailureKind, message: String) {
        self.kind = kind
        self.message = message
    }
}
