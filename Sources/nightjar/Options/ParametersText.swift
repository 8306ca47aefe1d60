import Agent
import Documents
import LuaRuntime
import PluginHost

/// The value of `--params`.
enum ParametersText {
    static func json(_ text: String) throws -> JSONValue {
        do { return try JSONValue(parsing: text) } catch { throw AgentError(.invalid, "--params is not JSON: \(error)") }
    }

    /// A plugin's parameters; `.missing` if the option is not given.
    static func value(_ text: String?) throws -> LuaValue {
        try text.map { LuaValue(try json($0)) } ?? .missing
    }
}
