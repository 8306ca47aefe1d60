import Glibc

/// The product under test.
package enum NightjarExecutable {
    /// The path of the executable: what `NIGHTJAR_EXECUTABLE` names, or the one beside the test bundle.
    ///
    /// - Throws: ``SupportError`` if it has not been built.
    package static func path() throws -> String {
        if let named = getenv("NIGHTJAR_EXECUTABLE") { return String(cString: named) }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        guard length > 0 else { throw SupportError("/proc/self/exe cannot be read") }
        let runner = String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The runner is either the test bundle itself, in the folder of the products, or a helper of the toolchain that
        // gets the bundle as an argument.
        for start in [runner] + CommandLine.arguments {
            var folder = Substring(start)
            while let slash = folder.lastIndex(of: "/") {
                folder = folder[..<slash]
                let candidate = "\(folder)/nightjar"
                var facts = stat()
                if stat(candidate, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, access(candidate, X_OK) == 0 { return candidate }
            }
        }
        throw SupportError("there is no executable nightjar beside \(runner): build the product first, or set NIGHTJAR_EXECUTABLE")
    }

    /// Runs a command to its end.
    package static func run(
        _ arguments: String..., environment: [String: String] = [:], folder: String? = nil, input: Subprocess.Input = .none
    ) async throws -> Subprocess.Outcome {
        try await Subprocess.run(try path(), arguments, environment: environment, folder: folder, input: input)
    }

    /// The root of the package, found from where this file was compiled: for the plugins and examples that are shipped.
    package static func package(_ file: String = #filePath) -> String {
        let parts = file.split(separator: "/", omittingEmptySubsequences: false)
        return parts.prefix(upTo: parts.lastIndex(of: "Tests") ?? parts.startIndex).joined(separator: "/")
    }
}
