import Glibc

/// The project's own files, read the plain way.
enum SourceFiles {
    /// The package's folder.
    static let root: String = {
        var parts = #filePath.split(separator: "/").map(String.init)
        parts.removeLast(3)
        return "/" + parts.joined(separator: "/")
    }()

    static func names(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    /// Swift files under a folder of the package, as paths from the package's folder.
    static func swift(under folder: String) -> [String] { files(under: folder, [".swift"]) }

    /// The same of C, with what a header defines.
    static func c(under folder: String) -> [String] { files(under: folder, [".c", ".h"]) }

    private static func files(under folder: String, _ endings: [String]) -> [String] {
        var found: [String] = []
        for name in names(in: "\(root)/\(folder)") {
            let path = "\(folder)/\(name)"
            if endings.contains(where: { name.hasSuffix($0) }) {
                found.append(path)
            } else if !name.contains(".") {
                found += files(under: path, endings)
            }
        }
        return found
    }

    static func bytes(of path: String) -> [UInt8] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            if count == 0 { return bytes }
            bytes.append(contentsOf: buffer[..<count])
        }
    }

    /// Modules that a file of the package imports.
    static func imports(of file: String) -> [String] {
        let text = String(decoding: bytes(of: "\(root)/\(file)"), as: UTF8.self)
        return text.split(separator: "\n").compactMap { line in
            var words = line.split(separator: " ").map(String.init)
            while let first = words.first, ["public", "internal", "package", "private", "fileprivate"].contains(first) || first.hasPrefix("@") {
                words.removeFirst()
            }
            guard words.first == "import", words.count > 1 else { return nil }
            // `import struct Module.Type` names the module after the kind.
            let kinds: Set<String> = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias"]
            let name = kinds.contains(words[1]) && words.count > 2 ? words[2] : words[1]
            return name.split(separator: ".").first.map(String.init)
        }
    }

    /// An executable of the package, beside the running tests.
    static func executable(_ name: String) -> String? {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        var candidates = CommandLine.arguments
        if length > 0 { candidates.append(String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)) }
        for argument in candidates {
            var parts = argument.split(separator: "/").map(String.init)
            while !parts.isEmpty {
                parts.removeLast()
                let path = "/" + (parts + [name]).joined(separator: "/")
                var facts = stat()
                if parts.last == "debug" || parts.last == "release" || argument.contains(".xctest"), stat(path, &facts) == 0,
                    facts.st_mode & S_IFMT == S_IFREG
                {
                    return path
                }
            }
        }
        return nil
    }

    /// Libraries that a program of this system (64-bit ELF) asks the loader for.
    static func neededLibraries(of path: String) -> [String] {
        let file = bytes(of: path)
        func number(_ offset: Int, _ width: Int) -> Int {
            guard offset >= 0, offset + width <= file.count else { return 0 }
            return (0..<width).reduce(0) { $0 | Int(file[offset + $1]) << (8 * $1) }
        }
        guard file.count > 64, Array(file[0..<5]) == [0x7F, 0x45, 0x4C, 0x46, 2] else { return [] }
        var segments: [(type: Int, offset: Int, address: Int, size: Int)] = []
        for index in 0..<number(56, 2) {
            let at = number(32, 8) + index * number(54, 2)
            segments.append((number(at, 4), number(at + 8, 8), number(at + 16, 8), number(at + 32, 8)))
        }
        guard let dynamic = segments.first(where: { $0.type == 2 }) else { return [] }
        var names: [Int] = []
        var strings = 0
        for at in stride(from: dynamic.offset, to: dynamic.offset + dynamic.size, by: 16) {
            switch number(at, 8) {
            case 1: names.append(number(at + 8, 8))
            case 5: strings = number(at + 8, 8)
            default: break
            }
        }
        guard let home = segments.first(where: { $0.type == 1 && $0.address <= strings && strings < $0.address + $0.size }) else { return [] }
        let table = strings - home.address + home.offset
        return names.map { name in
            String(decoding: file[(table + name)...].prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
