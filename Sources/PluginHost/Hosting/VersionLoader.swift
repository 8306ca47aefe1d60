import Environment
import LuaRuntime
import Synchronization

/// Compiles one version in a fresh sandbox and checks its declarations. Needs a thread with a large stack.
enum VersionLoader {
    static func load(
        _ source: PluginSource, host: PluginHostLimits, pool: PluginWorkers?, _ environment: Environment
    ) -> Result<LoadedVersion, PluginProblem> {
        // Load-time code runs with the host's limits: those that the plugin requests are only known afterwards.
        let limits = host.limits(for: source.name)
        let state: LuaPluginState
        do {
            state = try LuaPluginState(
                name: source.name, chunkName: source.main.path, source: source.main.bytes,
                modules: PluginSource.Loader(source: source), host: LoadHost(environment), limits: limits.state)
            try state.checkGlobals(sources(of: source, required: state.requiredModules))
        } catch {
            return .failure(PluginProblem(plugin: source.name, luaMessage: error.message, fallbackFile: source.main.path))
        }
        func refused(_ problem: ParameterProblem, in section: String) -> Result<LoadedVersion, PluginProblem> {
            .failure(PluginProblem(
                plugin: source.name, file: source.main.path, line: line(of: problem.parameter, in: source.main.bytes, section: section),
                message: problem.description))
        }
        let declarations: ParameterDeclarations
        do { declarations = try ParameterDeclarations(state.parameterDeclarations) } catch { return refused(error, in: "params") }
        let own: PluginLimits
        do {
            own = try DeclaredLimits.effective(state.limitDeclarations, plugin: source.name, host: host)
        } catch { return refused(error, in: "limits") }
        return .success(LoadedVersion(
            source: source, description: state.description, hooks: state.hooks, declarations: declarations, limits: own, pool: pool))
    }

    /// Where a refused version reads an undefined global variable; nil if that is not why it was refused.
    static func undefinedGlobal(in source: PluginSource, host: PluginHostLimits, _ environment: Environment) -> PluginProblem? {
        do throws(LuaFailure) {
            let state = try LuaPluginState(
                name: source.name, chunkName: source.main.path, source: source.main.bytes, modules: PluginSource.Loader(source: source),
                host: LoadHost(environment), limits: host.limits(for: source.name).state)
            do throws(LuaFailure) {
                try state.checkGlobals(sources(of: source, required: state.requiredModules))
            } catch {
                return PluginProblem(plugin: source.name, luaMessage: error.message, fallbackFile: source.main.path)
            }
        } catch {}
        return nil
    }

    /// A file in the plugin's own folder that load-time code has not required may not be a module at all.
    private static func sources(of source: PluginSource, required: [String]) -> [(chunkName: String, source: [UInt8], isRead: Bool)] {
        var all: [(chunkName: String, source: [UInt8], isRead: Bool)] = [(source.main.path, source.main.bytes, true)]
        for (name, file) in source.modules.sorted(by: { $0.value.path < $1.value.path }) {
            all.append((file.path, file.bytes, required.contains(name) || file.path.hasPrefix("lib/")))
        }
        return all
    }

    /// The line that declares a parameter or limit: the first one after the section's start that contains its name. Nil if uncertain.
    private static func line(of parameter: String, in source: [UInt8], section: String) -> Int? {
        var seenSection = false
        for (index, line) in source.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            var rest = line[...]
            if !seenSection {
                guard let at = find(section, in: rest) else { continue }
                seenSection = true
                if parameter == section { return index + 1 }
                rest = rest[(at + section.utf8.count)...]
            }
            if find(parameter, in: rest) != nil { return index + 1 }
        }
        return nil
    }

    private static func find(_ text: String, in line: ArraySlice<UInt8>) -> Int? {
        let wanted = Array(text.utf8)
        guard !wanted.isEmpty, line.count >= wanted.count else { return nil }
        return (line.startIndex...(line.endIndex - wanted.count)).first { line[$0..<($0 + wanted.count)].elementsEqual(wanted) }
    }
}

/// Services while a version is being checked, tested or tried out: nothing it does has lasting effects. What it writes to
/// `nightjar.state` is discarded.
final class LoadHost: HashingHost {
    let passwords = PasswordService()
    /// In a test `nightjar.get` finds nothing; otherwise it is an error.
    private let isTest: Bool
    let environment: Environment
    private let state = Mutex(PluginStateTable())

    init(_ environment: Environment, isTest: Bool = false) {
        self.environment = environment
        self.isTest = isTest
    }

    func get(collection: String?, id: String) throws(LuaHostRefusal) -> LuaDocument? {
        guard isTest else { throw LuaHostRefusal("get is not available here: there is no database") }
        return nil
    }

    func readState(key: String) throws(LuaHostRefusal) -> LuaValue { state.withLock { $0.read(key) } }
    func writeState(key: String, value: LuaValue) throws(LuaHostRefusal) {
        let refusal: PluginServiceRefusal? = state.withLock { table in
            do throws(PluginServiceRefusal) { try table.write(key, value) } catch { return error }
            return nil
        }
        if let refusal { throw LuaHostRefusal(refusal.message) }
    }
}
