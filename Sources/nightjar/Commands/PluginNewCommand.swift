import Agent
import ArgumentParser
import Glibc
import LuaRuntime
import PluginHost

struct PluginNewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new", abstract: "Writes a commented starting point for a plugin, with a test that passes.",
        discussion: "No existing file is overwritten. The folder is created if it does not exist.")

    /// A hook, or a common word for what it does.
    struct Kind: ExpressibleByArgument {
        static let words: KeyValuePairs<String, LuaHook> = [
            "filter": .pushFilter, "resolver": .resolve, "authenticator": .authenticatePassword,
        ]

        static var allValueStrings: [String] { words.map(\.key) + LuaHook.allCases.map(\.rawValue) }

        var hook: LuaHook

        init?(argument: String) {
            guard let hook = Self.words.first(where: { $0.key == argument })?.value ?? LuaHook(rawValue: argument) else { return nil }
            self.hook = hook
        }
    }

    @OptionGroup var location: ConfigurationOptions
    @Argument(help: "A hook, like push_filter or resolve; or filter, resolver or authenticator.") var kind: Kind
    @Argument(help: "The plugin's name: lower case letters, digits, _ and -.") var name: String

    func run() async throws {
        try await Failure.reporting {
            let folder = try location.readWithoutSecrets().plugins?.value ?? "plugins"
            let files = try PluginTemplate.files(kind.hook, name: name)
            for path in files.map(\.path) + ["\(name)/init.lua"] where access("\(folder)/\(path)", F_OK) == 0 {
                throw AgentError(.conflict, "\(folder)/\(path) is there already; nothing was written")
            }
            if mkdir(folder, 0o755) != 0, errno != EEXIST {
                throw AgentError(.failed, "cannot make the plugins folder \(folder): \(String(cString: strerror(errno)))")
            }
            for file in files { try write(file.text, to: "\(folder)/\(file.path)") }
            for file in files.reversed() { Output.line("\(folder)/\(file.path)") }
        }
    }

    /// Never overwrites a file that appeared meanwhile.
    private func write(_ text: String, to path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard file >= 0 else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
        defer { close(file) }
        do { try Array(text.utf8).withUnsafeBytes { try Output.writeAll(file, $0) } } catch {
            // What was begun would be in the way of the next attempt.
            unlink(path)
            throw AgentError(.failed, "\(path): \(error)")
        }
    }
}
