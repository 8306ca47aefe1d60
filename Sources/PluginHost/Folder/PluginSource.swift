import Digests
import Encodings
import LuaRuntime

/// The files of one plugin, as read at one moment.
struct PluginSource: Sendable {
    struct File: Sendable {
        /// Relative to the plugins folder.
        var path: String
        var bytes: [UInt8]
    }

    let name: String
    let main: File
    /// The modules that `require` can load, by name.
    let modules: [String: File]
    let tests: File?
    /// The first 12 hexadecimal digits of a SHA-256: of the file itself, as `sha256sum` prints it; for several files, of `sha256sum`'s
    /// lines about them, ordered by path.
    let version: String
    /// Like `version`, but including the tests.
    let identity: String
    /// The signature that came with the files, valid or not: from the file beside the plugin, or the fleet's document.
    var signature: [UInt8]?

    /// - Parameters:
    ///   - own: modules of the plugin's own folder; all of them belong to the version.
    ///   - library: modules of plugins/lib; those belong to the version that are named in its sources, directly or through others.
    init(name: String, main: File, own: [String: File], library: [String: File], tests: File?, signature: [UInt8]? = nil) {
        self.name = name
        self.signature = signature
        self.main = main
        self.tests = tests
        var reached = own
        if !library.isEmpty {
            var unread = [main.bytes] + own.values.map(\.bytes)
            while let source = unread.popLast() {
                for literal in Self.moduleNames(in: source) {
                    guard reached[literal] == nil, let file = library[literal] else { continue }
                    reached[literal] = file
                    unread.append(file.bytes)
                }
            }
        }
        modules = reached
        version = Self.version(of: [main] + reached.values)
        identity = Self.version(of: [main] + reached.values + (tests.map { [$0] } ?? []))
    }

    var byteCount: Int { modules.values.reduce(main.bytes.count) { $0 + $1.bytes.count } }

    private static func version(of files: [File]) -> String {
        if files.count == 1 { return short(SHA256.hash(files[0].bytes)) }
        let lines = files.sorted { $0.path < $1.path }.map { "\(Hex.encode(SHA256.hash($0.bytes)))  \($0.path)\n" }
        return short(SHA256.hash(Array(lines.joined().utf8)))
    }

    static func short(_ digest: [UInt8]) -> String { Hex.encode(digest.prefix(6)) }

    /// Quoted strings that could be module names. May be more than those in `require` calls, but includes all that are literals.
    private static func moduleNames(in source: [UInt8]) -> Set<String> {
        var names: Set<String> = []
        var start: Int?
        for (at, byte) in source.enumerated() {
            guard byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "]")
            else { continue }
            if let start, at - start <= 100, at > start {
                let text = String(decoding: source[start..<at], as: UTF8.self)
                if PluginName.isModule(text) { names.insert(text) }
            }
            start = at + 1
        }
        return names
    }

    /// Serves `require` from the files of this version.
    struct Loader: LuaModuleLoader {
        let source: PluginSource

        func module(named name: String) -> LuaModule {
            guard PluginName.isModule(name) else {
                return .refused("\"\(name)\" cannot be a module's name: letters, digits, _ and -, parts joined by dots")
            }
            if let file = source.modules[name] { return .source(file.bytes, chunkName: file.path) }
            let path = name.split(separator: ".").joined(separator: "/") + ".lua"
            let own = source.main.path == source.name + "/init.lua" ? "\(source.name)/\(path) or " : ""
            return .refused("no module \"\(name)\": expected \(own)lib/\(path) in the plugins folder, and its name written out in a source")
        }
    }
}
