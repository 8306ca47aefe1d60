import Digests
import Encodings
import Glibc

/// Checks whether a version of a plugin is signed with a trusted key. The signature of a plugin in the plugins folder is in a file beside its main
/// file: `NAME.lua.sig`, `NAME/init.lua.sig`. It is stored with each version that was in force, and checked again against the currently trusted keys
/// whenever that version could serve.
package struct PluginSeal: Sendable {
    package static let suffix = ".sig"
    /// The maximum size of a signature file.
    static let maximumBytes = 4 << 10

    /// Why a signature is not valid for a message; nil if it is.
    package let problem: @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> String?
    /// The same for the document that supplied a plugin from outside the folder.
    private let suppliedProblem: @Sendable (_ document: [UInt8], _ plugin: SuppliedPlugin) -> String?

    package init(
        problem: @escaping @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> String?,
        suppliedProblem: @escaping @Sendable (_ document: [UInt8], _ plugin: SuppliedPlugin) -> String?
    ) { (self.problem, self.suppliedProblem) = (problem, suppliedProblem) }

    /// Why a version must not serve, wherever it was stored; nil if it may.
    func refusal(of source: PluginSource) -> PluginProblem? {
        let reason: String
        if let signature = source.signature {
            let found = if let plugin = SuppliedPlugin(source) { suppliedProblem(signature, plugin) } else { problem(signature, source.signedText) }
            guard let found else { return nil }
            reason = "its signature \(found)"
        } else {
            reason = "it has no signature"
        }
        let file = SuppliedPlugin(source) == nil ? source.main.path : "\(source.name).lua"
        return PluginProblem(
            plugin: source.name, file: file + Self.suffix,
            message: "version \(source.version), which was in force and is kept, does not serve with fleet.require_signed: \(reason); have that file, or a newer one, signed "
                + "where the key is (nightjar plugin sign \(source.name) --key FILE), and put both into the plugins folder")
    }

    /// What to do about a signature that is missing or wrong.
    ///
    /// - Parameter file: its file in the plugins folder.
    package static func remedy(_ plugin: String, file: String) -> String {
        "sign it on the machine that has the signing key: nightjar plugin sign \(plugin) --key FILE --plugins FOLDER; then put \(file) into the plugins folder here"
    }

    /// The text to be signed for a plugin as it is in the folder now, and the path for its signature.
    package static func unsigned(_ plugin: String, in folder: String, limits: PluginHostLimits) throws(PluginError) -> (message: [UInt8], file: String) {
        let scan = FolderScan.read(folder, limits)
        guard let source = scan.sources[plugin] else {
            if let problem = scan.refused[plugin] { throw .refused(plugin: plugin, problem: problem) }
            if let failure = scan.failure { throw .system(failure) }
            throw .unknown(plugin: plugin, folder: folder, nearest: PluginName.nearest(to: plugin, among: scan.sources.keys.sorted()))
        }
        return (source.signedText, "\(folder)/\(source.main.path)\(suffix)")
    }
}

extension PluginSource {
    /// The name, and every file that affects the plugin, including its tests: lines as `sha256sum` prints them, ordered by path.
    var signedText: [UInt8] {
        let files = ([main] + modules.values + (tests.map { [$0] } ?? [])).sorted { $0.path < $1.path }
        return Array("nightjar plugin 1\n\(name)\n\(files.map { "\(Hex.encode(SHA256.hash($0.bytes)))  \($0.path)\n" }.joined())".utf8)
    }
}

extension FolderScan {
    /// Reads the signatures beside the plugins, which are stored with their versions; if signatures are required, refuses the plugins whose signature
    /// is missing or wrong.
    ///
    /// - Parameters:
    ///   - seal: nil if no signatures are required.
    ///   - folder: the folder from which they were read, and its real path.
    mutating func readSignatures(_ seal: PluginSeal?, at folder: Int32, _ realPath: String) {
        for (name, source) in sources {
            let file = source.main.path + PluginSeal.suffix
            var problem: String?
            do throws(FileRefusal) {
                let content = try BoundedFile.read(at: folder, file, inside: [realPath], limit: PluginSeal.maximumBytes, limitName: "signature bytes")
                sources[name]?.signature = content.bytes
                problem = seal?.problem(content.bytes, source.signedText)
            } catch {
                problem = error.isMissing ? "is missing: fleet.require_signed accepts no plugin without a signature" : error.message
            }
            guard seal != nil, let problem else { continue }
            refused[name] = PluginProblem(plugin: name, file: file, message: "\(problem); sign it where the key is: nightjar plugin sign \(name) --key FILE")
            sources[name] = nil
        }
    }
}
