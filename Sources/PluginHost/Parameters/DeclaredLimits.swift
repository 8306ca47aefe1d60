import LuaRuntime

/// The `limits` in the table that a plugin returns: what it requests for itself, with the names used in the configuration's
/// `plugin_limits`.
enum DeclaredLimits {
    private static let names = ["memory", "cpu_ms", "instructions", "resolver_cpu_ms", "resolver_instructions", "log_lines"]
    /// A state or call cannot work with less than this.
    private static let minimumMemory = 1 << 20
    private static let minimumInstructions = 10_000

    /// The effective limits of one plugin: those it declares, otherwise the configuration's or the host's.
    ///
    /// - Throws: for something that is not a limit, not an integer, or above the host's ceiling. A value in the configuration is the
    ///   operator's final decision: a plugin that requests more gets exactly that value.
    static func effective(_ declared: LuaValue, plugin: String, host: PluginHostLimits) throws(ParameterProblem) -> PluginLimits {
        var limits = host.limits(for: plugin)
        if limits.logLinesPerSecond == nil { limits.logLinesPerSecond = host.logLinesPerSecond }
        guard declared != .missing else { return limits }
        guard case .object(let members) = declared else {
            if declared == .array([]) { return limits }
            throw ParameterProblem(parameter: "limits", message: "limits must be a table of names and numbers, not \(declared.typeName)")
        }
        let configured = host.perPlugin[plugin]
        for member in members {
            guard names.contains(member.key) else {
                throw ParameterProblem(
                    parameter: member.key, message: "unknown limit \"\(member.key)\": expected \(names.joined(separator: ", "))",
                    nearest: PluginName.nearest(to: member.key, among: names))
            }
            guard let number = member.value.integer, let wanted = Int(exactly: number), wanted >= least(member.key) else {
                throw ParameterProblem(
                    parameter: member.key,
                    message: "limits.\(member.key) must be a whole number of at least \(least(member.key)), not \(member.value.shortText)")
            }
            func take(_ path: WritableKeyPath<PluginLimits, Int>) throws(ParameterProblem) {
                let (usual, ceiling) = (host.plugin[keyPath: path], host.ceiling[keyPath: path])
                if let set = configured?[keyPath: path], set != usual {
                    limits[keyPath: path] = min(wanted, set)
                } else if wanted > max(ceiling, usual) {
                    throw ParameterProblem(
                        parameter: member.key,
                        message: "limits.\(member.key) = \(wanted) is beyond the host's ceiling of \(max(ceiling, usual)); "
                            + "plugin_limits of the configuration can give more")
                } else {
                    limits[keyPath: path] = wanted
                }
            }
            switch member.key {
            case "memory": try take(\.state.memoryBytes)
            case "cpu_ms":
                try take(\.filter.cpuMilliseconds)
                try take(\.authenticator.cpuMilliseconds)
            case "instructions":
                try take(\.filter.instructions)
                try take(\.authenticator.instructions)
            case "resolver_cpu_ms": try take(\.resolver.cpuMilliseconds)
            case "resolver_instructions": try take(\.resolver.instructions)
            default:
                let ceiling = max(host.ceiling.logLinesPerSecond ?? 0, host.logLinesPerSecond)
                if let set = configured?.logLinesPerSecond {
                    limits.logLinesPerSecond = min(wanted, set)
                } else if wanted > ceiling {
                    throw ParameterProblem(
                        parameter: member.key, message: "limits.log_lines = \(wanted) is beyond the host's ceiling of \(ceiling)")
                } else {
                    limits.logLinesPerSecond = wanted
                }
            }
        }
        return limits
    }

    private static func least(_ name: String) -> Int {
        switch name {
        case "memory": minimumMemory
        case "instructions", "resolver_instructions": minimumInstructions
        case "log_lines": 0
        default: 1
        }
    }
}
