import Digests
import Encodings
import Glibc

/// Whether the files of a plugin in the plugins folder are signed by somebody who counts. The signature is in a file beside the plugin's first
/// one: `NAME.lua.sig`, `NAME/init.lua.sig`.
package struct PluginSeal: Sendable {
    package static let suffix = ".sig"
    /// Of a signature's file.
    static let maximumBytes = 4 << 10

    /// Why a signature does not count for a message; nil where it does.
    package let problem: @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> String?

    package init(problem: @escaping @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> String?) { self.problem = problem }

    /// What has to be signed of a plugin as it is in the folder now, and where its signature belongs.
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
    /// The name, and every file that can have a say, with its tests: lines as `sha256sum` prints them, ascending by path.
    var signedText: [UInt8] {
        let files = ([main] + modules.values + (tests.map { [$0] } ?? [])).sorted { $0.path < $1.path }
        return Array("nightjar plugin 1\n\(name)\n\(files.map { "\(Hex.encode(SHA256.hash($0.bytes)))  \($0.path)\n" }.joined())".utf8)
    }
}

extension FolderScan {
    /// Refuses the plugins whose signature is missing or wrong.
    ///
    /// - Parameter folder: from which they were read, with its real path.
    mutating func check(_ seal: PluginSeal, at folder: Int32, _ realPath: String) {
        for (name, source) in sources {
            let file = source.main.path + PluginSeal.suffix
            var problem: String?
            do throws(FileRefusal) {
                let content = try BoundedFile.read(at: folder, file, inside: [realPath], limit: PluginSeal.maximumBytes, limitName: "signature bytes")
                problem = seal.problem(content.bytes, source.signedText)
            } catch {
                problem = error.isMissing ? "is missing: fleet.require_signed takes no plugin without a signature" : error.message
            }
            guard let problem else { continue }
            refused[name] = PluginProblem(plugin: name, file: file, message: "\(problem); sign it where the key is: nightjar plugin sign \(name) --key FILE")
            sources[name] = nil
        }
    }
}
