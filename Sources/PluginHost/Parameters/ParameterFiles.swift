import Digests
import Glibc
import LuaRuntime

/// Reads the files named by parameters of type "file". Plugins cannot read files; the host passes them the text.
struct ParameterFiles: Sendable {
    /// Folders in which files may be read, in the order in which a relative path is looked up: the configuration's, then the plugins
    /// folder.
    let folders: [String]
    let limits: PluginHostLimits

    struct Text: Sendable, Equatable {
        var bytes: [UInt8]
        /// The path as opened, for watching its folder.
        var path: String
        var digest: [UInt8]
    }

    /// The text of one file. A path may be absolute or relative to one of the folders; the file must be in one of them.
    func read(_ given: String) throws(FileRefusal) -> Text {
        guard !given.isEmpty, !given.utf8.contains(0) else { throw FileRefusal(message: "is not a path") }
        let roots = folders.compactMap(Self.realPath)
        let candidates = given.utf8.first == UInt8(ascii: "/") ? [given] : folders.map { "\($0)/\(given)" }
        var missing: FileRefusal?
        for path in candidates {
            do throws(FileRefusal) {
                let content = try BoundedFile.read(
                    path, inside: roots, limit: limits.parameterFileBytes, limitName: "parameter file")
                guard String(validating: content.bytes, as: UTF8.self) != nil else { throw FileRefusal(message: "is not UTF-8 text") }
                return Text(bytes: content.bytes, path: path, digest: SHA256.hash(content.bytes))
            } catch {
                guard error.isMissing else { throw error }
                missing = error
            }
        }
        throw FileRefusal(isMissing: true, message: "\(missing?.message ?? "no folder"): looked in \(folders.joined(separator: " and "))")
    }

    private static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
