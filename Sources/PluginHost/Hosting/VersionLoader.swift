import Digests
import LuaRuntime
import Synchronization

/// Compiles one version in a fresh sandbox and checks what it declares. Needs a thread with a large stack.
enum VersionLoader {
    static func load(_ source: PluginSource, limits: PluginLimits, pool: WorkerPool?) -> Result<LoadedVersion, PluginProblem> {
        let state: LuaPluginState
        do {
            state = try LuaPluginState(
                name: source.name, chunkName: source.main.path, source: source.main.bytes,
                modules: PluginSource.Loader(source: source), host: LoadHost(), limits: limits.state)
        } catch {
            return .failure(PluginProblem(plugin: source.name, luaMessage: error.message, fallbackFile: source.main.path))
        }
        do {
            return .success(LoadedVersion(
                source: source, description: state.description, hooks: state.hooks,
                declarations: try ParameterDeclarations(state.parameterDeclarations), limits: limits, pool: pool))
        } catch {
            return .failure(PluginProblem(
                plugin: source.name, file: source.main.path, line: line(of: error.parameter, in: source.main.bytes),
                message: error.description))
        }
    }

    /// The line that declares a parameter: the first one after `params` that holds its name. Nil rather than a wrong guess.
    private static func line(of parameter: String, in source: [UInt8]) -> Int? {
        var seenParams = false
        for (index, line) in source.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            var rest = line[...]
            if !seenParams {
                guard let at = find("params", in: rest) else { continue }
                seenParams = true
                if parameter == "params" { return index + 1 }
                rest = rest[(at + 6)...]
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

/// Services while a version is only looked at or tried: nothing leaves it.
final class LoadHost: LuaHost {
    let passwords = PasswordService()
    private let state = Mutex(PluginStateTable())

    func readState(key: String) throws(LuaHostRefusal) -> LuaValue { state.withLock { $0.read(key) } }
    func writeState(key: String, value: LuaValue) throws(LuaHostRefusal) {
        let refusal: PluginServiceRefusal? = state.withLock { table in
            do throws(PluginServiceRefusal) { try table.write(key, value) } catch { return error }
            return nil
        }
        if let refusal { throw LuaHostRefusal(refusal.message) }
    }

    func sha1(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] { SHA1.hash(bytes) }
    func sha256(_ bytes: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] { SHA256.hash(bytes) }
    func hmacSHA256(key: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) throws(LuaHostRefusal) -> [UInt8] {
        Digests.hmacSHA256(key: Array(key), message: Array(message))
    }
    func passwordHash(_ password: [UInt8]) throws(LuaHostRefusal) -> String { try passwords.hash(password) }
    func passwordVerify(_ password: [UInt8], hash: String) throws(LuaHostRefusal) -> Bool {
        try passwords.verify(password, hash: hash)
    }
}
