import Digests
import Encodings
import LuaRuntime

/// The parameters of one use, checked against one version, with the texts of files.
struct UsePreparation: Sendable {
    var prepared: PreparedUse
    var texts: [String: ParameterFiles.Text]
    var fileProblems: [String: String]

    /// Checks that the version suits the use, and reads the files that its parameters name.
    ///
    /// - Parameter previous: texts read earlier; one of them stays in force while its file cannot be read.
    init(
        _ version: LoadedVersion, hook: LuaHook, params: LuaValue, usedBy: String, files: ParameterFiles,
        previous: [String: ParameterFiles.Text] = [:]
    ) throws(PluginError) {
        let source = version.source
        guard version.hooks.contains(hook) else {
            throw .noHook(
                plugin: source.name, file: source.main.path, hook: hook.rawValue, has: version.hookNames, usedBy: usedBy)
        }
        var problems = version.declarations.problems(in: params)
        var members = problems.isEmpty ? version.declarations.completed(params) : []
        texts = [:]
        fileProblems = [:]
        for index in members.indices {
            let name = members[index].key
            guard version.declarations[name]?.kind == .file, let path = members[index].value.text else { continue }
            do {
                texts[name] = try files.read(path)
            } catch {
                let message = "parameter \"\(name)\": file \"\(path)\": \(error.message)"
                guard let old = previous[name] else {
                    problems.append(ParameterProblem(parameter: name, message: message))
                    continue
                }
                texts[name] = old
                fileProblems[name] = message
            }
            if let text = texts[name] { members[index].value = .string(text.bytes) }
        }
        guard problems.isEmpty else {
            throw .parameters(plugin: source.name, file: source.main.path, problems: problems, usedBy: usedBy)
        }
        var name = source.version
        if !texts.isEmpty {
            let digests = texts.sorted { $0.key < $1.key }.flatMap(\.value.digest)
            name += "+" + Hex.encode(SHA256.hash(digests).prefix(3))
        }
        prepared = PreparedUse(params: .object(members), version: name)
    }
}
