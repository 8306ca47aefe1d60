import Glibc
import Testing

/// README's drawing of the targets, as rules: which target may import which.
@Suite("Targets")
struct ArrowTests {
    /// Our own targets, and what each may import of the others.
    static let allowed: [String: Set<String>] = [
        "Encodings": [],
        "Digests": ["COpenSSL", "Encodings"],
        "Documents": ["Digests", "Encodings"],
        "Selectors": ["Documents"],
        "SQLite": ["CSQLite"],
        "BLIP": ["CZlib", "Encodings"],
        "LuaRuntime": ["CLua", "Encodings", "Environment"],
        "AgentConfiguration": ["CYAML", "Encodings"],
        "Environment": [],
        "Interfaces": ["Documents", "Environment"],
        "DocumentStore": ["Documents", "Digests", "Encodings", "Environment", "Selectors", "SQLite"],
        "Replication": ["BLIP", "Digests", "Documents", "DocumentStore", "Encodings", "Environment", "Interfaces"],
        "PluginHost": ["LuaRuntime", "Interfaces", "Encodings", "Environment", "Documents", "Digests"],
        "Discovery": ["Encodings", "Environment"],
        "TLS": ["COpenSSL", "Digests", "Encodings", "Environment"],
        "HTTPServer": ["Encodings", "Environment"],
        "CouchDBServer": [
            "CZlib", "Digests", "Documents", "DocumentStore", "Encodings", "Environment", "HTTPServer", "Interfaces", "Replication",
            "Selectors",
        ],
        "MessageEndpoints": ["CZlib", "Environment", "Interfaces"],
        "Transport": ["HTTPServer", "Interfaces", "Encodings", "Environment", "Documents", "Digests", "MessageEndpoints", "TLS"],
        "Agent": [
            "AgentConfiguration", "CLoader", "CMalloc", "CTimex", "CouchDBServer", "Digests", "Discovery", "DocumentStore", "Documents", "Encodings", "Environment", "HTTPServer", "Interfaces",
            "LuaRuntime", "MessageEndpoints", "PluginHost", "Replication", "TLS", "Transport",
        ],
        // Commands speak to an agent or open its folders: nothing of the protocol, of TLS records or of SQL is theirs.
        "nightjar": [
            "Agent", "AgentConfiguration", "Digests", "Discovery", "DocumentStore", "Documents", "Encodings", "Environment", "HTTPServer", "Interfaces",
            "LuaRuntime", "MessageEndpoints", "PluginHost", "Replication", "TLS", "Transport",
        ],
    ]

    /// Packages and system modules that a target may import beside them.
    static let outside: [String: Set<String>] = [
        "BLIP": ["NIOCore"],
        "Interfaces": ["NIOCore"],
        "MessageEndpoints": ["NIOCore"],
        "Replication": ["NIOCore", "Logging"],
        "PluginHost": ["Logging"],
        "TLS": ["NIOCore"],
        "Discovery": ["NIOCore", "NIOPosix", "Logging"],
        "HTTPServer": ["NIOCore", "NIOPosix", "NIOHTTP1", "Logging"],
        "CouchDBServer": ["NIOCore", "Logging"],
        "Transport": ["NIOCore", "NIOPosix", "NIOHTTP1", "NIOConcurrencyHelpers", "Logging"],
        "nightjar": ["NIOCore", "NIOPosix", "Logging", "UnixSignals", "ArgumentParser"],
        "Agent": ["NIOCore", "NIOPosix", "Logging", "ServiceLifecycle", "UnixSignals"],
    ]

    /// What any target may import: the standard library's own modules and the system's C library.
    static let everywhere: Set<String> = ["Swift", "Glibc", "Synchronization", "FoundationEssentials"]

    @Test("A target imports only what the drawing allows", arguments: ArrowTests.allowed.keys.sorted())
    func imports(target: String) throws {
        let mayImport = (Self.allowed[target] ?? []).union(Self.outside[target] ?? []).union(Self.everywhere)
        let files = SourceFiles.swift(under: "Sources/\(target)")
        #expect(!files.isEmpty, "no sources in Sources/\(target)")
        for file in files {
            for module in SourceFiles.imports(of: file) where module != target {
                #expect(mayImport.contains(module), "\(file) imports \(module), which \(target) may not")
            }
        }
    }

    @Test("In Replication only the dialect speaks BLIP, and the limits bound it")
    func onlyADialectSpeaks() {
        for file in SourceFiles.swift(under: "Sources/Replication") where SourceFiles.imports(of: file).contains("BLIP") {
            #expect(file.hasPrefix("Sources/Replication/BLIPDialect/") || file == "Sources/Replication/Limits.swift", "\(file) imports BLIP")
        }
    }

    @Test("Nothing that ships imports full Foundation")
    func noFoundation() {
        for file in SourceFiles.swift(under: "Sources") {
            #expect(!SourceFiles.imports(of: file).contains("Foundation"), "\(file) imports Foundation: FoundationEssentials is enough")
        }
    }

    @Test("The executable does not link full Foundation")
    func executableLinksNoFoundation() throws {
        let path = try #require(SourceFiles.executable("nightjar"), "the executable nightjar is not built beside the tests")
        let needed = SourceFiles.neededLibraries(of: path)
        #expect(!needed.isEmpty, "\(path) names no libraries: is it an executable of this system?")
        #expect(!needed.contains("libFoundation.so"), "\(path) links full Foundation, which brings ICU (48 MB)")
        #expect(!needed.contains { $0.hasPrefix("libcurl") || $0.hasPrefix("libicu") })
    }

    @Test("A file has one purpose and at most 400 lines", arguments: ["Sources", "Tests"])
    func fileLengths(folder: String) {
        for file in SourceFiles.swift(under: folder) {
            let lines = SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)").count { $0 == UInt8(ascii: "\n") }
            #expect(lines <= 400, "\(file) has \(lines) lines: split it by purpose")
        }
    }

    @Test("Only what was agreed is at the top level")
    func topLevel() {
        let allowed: Set<String> = ["Package.swift", "Sources", "Tests", "plugins", "examples", "README.md", "LICENSE"]
        // Not of the project: made by the build, by tools or by running the agent here.
        let made: Set<String> = ["Package.resolved", "nightjar-data"]
        for name in SourceFiles.names(in: SourceFiles.root) where !name.hasPrefix(".") {
            #expect(allowed.contains(name) || made.contains(name), "\(name) does not belong at the top level")
        }
    }
}
