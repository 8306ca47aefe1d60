import Environment
import Glibc

/// A plugin that does not come from the plugins folder, and replaces one with the same name there.
package struct SuppliedPlugin: Sendable, Equatable {
    package var name: String
    package var main: [UInt8]
    package var tests: [UInt8]?
    /// The signed document that supplied it; nil if it counts as unsigned.
    package var document: [UInt8]?

    package init(name: String, main: [UInt8], tests: [UInt8]?, document: [UInt8]? = nil) {
        (self.name, self.main, self.tests, self.document) = (name, main, tests, document)
    }

    package static func isName(_ name: String) -> Bool { PluginName.isValid(name) }

    /// The version that status shows once it is in force.
    package var version: String { source.version }

    var source: PluginSource {
        PluginSource(
            name: name, main: .init(path: Self.path(name), bytes: main), own: [:], library: [:],
            tests: tests.map { .init(path: "fleet/\(name).test.lua", bytes: $0) }, signature: document)
    }

    /// No plugin in the plugins folder can have a file with this path as its own.
    private static func path(_ name: String) -> String { "fleet/\(name).lua" }

    /// The supplied plugin that a source was made from; nil for one from the plugins folder, and for one with modules, which a document's signature
    /// would not cover.
    init?(_ source: PluginSource) {
        guard source.main.path.utf8.elementsEqual(Self.path(source.name).utf8), source.modules.isEmpty else { return nil }
        self.init(name: source.name, main: source.main.bytes, tests: source.tests?.bytes, document: source.signature)
    }

    /// Why it would be refused wherever it is used: it does not load, or its tests fail.
    package func problem(limits: PluginHostLimits, proof: any PluginProof, environment: Environment) async throws(PluginError) -> PluginProblem? {
        let source = source
        guard source.byteCount <= limits.pluginBytes else {
            return PluginProblem(
                plugin: name, file: source.main.path, message: "its files have \(source.byteCount) bytes, more than plugin bytes = \(limits.pluginBytes)")
        }
        return try await environment.runPlugin(name: "plugin-check", stackBytes: limits.stackBytes) {
            switch VersionLoader.load(source, host: limits, pool: nil, environment) {
            case .failure(let problem): problem
            case .success(let version): proof.prove(PluginCandidate(version, limits, environment))
            }
        }
    }
}

extension FolderScan {
    /// Reads the folder; supplied plugins replace those with the same names.
    ///
    /// - Parameter mayBeAbsent: a missing folder counts as empty, because nobody asked for one.
    static func read(_ folder: String, _ limits: PluginHostLimits, only: String? = nil, seal: PluginSeal? = nil, supplied: [SuppliedPlugin], mayBeAbsent: Bool = false) -> FolderScan {
        var scan = mayBeAbsent && access(folder, F_OK) != 0 ? FolderScan() : read(folder, limits, only: only, seal: seal)
        for plugin in supplied {
            scan.refused[plugin.name] = nil
            scan.sources[plugin.name] = plugin.source
        }
        return scan
    }
}
