// swift-tools-version:6.1
import PackageDescription

// Each target is a module of the agent; README.md has the diagram, and Tests/HouseTests checks the dependencies between targets.

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
] + acrossModules

// The modules are small and call each other on hot paths; without cross-module optimisation, generic code stays unspecialised across them. Builds for
// use set NIGHTJAR_RELEASE=1, as the scripts in examples do. Without it no library target has a flag that SwiftPM calls unsafe, because SwiftPM
// refuses such flags in packages that are depended on by version. The optimiser only sees across modules what is public (Swift 6.3): what other
// modules call on hot paths is public, and the rest is `package` where it serves neighbouring modules.
var acrossModules: [SwiftSetting] {
    Context.environment["NIGHTJAR_RELEASE"] == nil ? [] : [.unsafeFlags(["-cross-module-optimization"], .when(configuration: .release))]
}

// Modules without hot paths, where small code matters more than fast code.
let small: [SwiftSetting] = strict + (Context.environment["NIGHTJAR_RELEASE"] == nil ? [] : [.unsafeFlags(["-Osize"], .when(configuration: .release))])

// Modules in which tests spend their time: Tests/run has them optimised, with all assertions (NIGHTJAR_TESTS=1, for the reason given above). A build from
// nothing takes a sixth less time if they are compiled as a whole (NIGHTJAR_WHOLE_MODULES=1); after a small change it would take longer.
let hot: [SwiftSetting] = strict + (Context.environment["NIGHTJAR_TESTS"] == nil ? [] : [.unsafeFlags(["-O", "-assert-config", "Debug"] + whole, .when(configuration: .debug))])
var whole: [String] { Context.environment["NIGHTJAR_WHOLE_MODULES"] == nil ? [] : ["-whole-module-optimization", "-num-threads", "2"] }

let package = Package(
    name: "nightjar",
    products: [
        .executable(name: "nightjar", targets: ["nightjar"]),
        .executable(name: "nightjar-bench", targets: ["nightjar-bench"]),
        // For applications that bring their own transport: message endpoints, and the replication that runs over them.
        .library(name: "MessageEndpoints", targets: ["MessageEndpoints", "Replication", "DocumentStore", "Documents", "Interfaces", "Environment", "Transport"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The system's libraries.
        .systemLibrary(name: "CSQLite", path: "Sources/System/CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "COpenSSL", path: "Sources/System/COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CLoader", path: "Sources/System/CLoader"),
        .systemLibrary(name: "CMalloc", path: "Sources/System/CMalloc"),
        .systemLibrary(name: "CTimex", path: "Sources/System/CTimex"),
        .systemLibrary(name: "CZlib", path: "Sources/System/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CYAML", path: "Sources/System/CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CSystemLua", path: "Sources/System/CSystemLua", pkgConfig: "lua5.4", providers: [.apt(["liblua5.4-dev"])]),

        // Values and parts that know nothing of each other.
        .target(name: "Encodings", swiftSettings: hot),
        .target(name: "Digests", dependencies: ["COpenSSL", "Encodings"], swiftSettings: hot),
        .target(name: "Documents", dependencies: ["Digests", "Encodings"], swiftSettings: hot),
        .target(name: "Selectors", dependencies: ["Documents"], swiftSettings: strict),
        .target(name: "SQLite", dependencies: ["CSQLite"], swiftSettings: hot),
        .target(name: "BLIP", dependencies: ["CZlib", "Encodings", .product(name: "NIOCore", package: "swift-nio")], swiftSettings: hot),
        .target(name: "CLua", dependencies: ["CSystemLua"], cSettings: [.unsafeFlags(["-O2", "-fno-plt"])]),
        .target(name: "LuaRuntime", dependencies: ["CLua", "Encodings", "Environment"], swiftSettings: hot),
        .target(name: "AgentConfiguration", dependencies: ["CYAML", "Encodings"], swiftSettings: small),
        .target(name: "Environment", swiftSettings: hot),

        // What several modules share: policies, transports, errors.
        .target(
            name: "Interfaces", dependencies: ["Documents", "Environment", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: hot),

        // Replication over an application's own transport.
        .target(
            name: "MessageEndpoints", dependencies: ["CZlib", "Environment", "Interfaces", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict),

        // The store and the protocol.
        .target(name: "DocumentStore", dependencies: ["Documents", "Digests", "Encodings", "Environment", "Selectors", "SQLite"], swiftSettings: hot),
        .target(
            name: "Replication",
            dependencies: [
                "BLIP", "Digests", "Documents", "DocumentStore", "Encodings", "Environment", "Interfaces",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: hot
        ),

        // The edges.
        .target(
            name: "HTTPServer",
            dependencies: [
                "Encodings", "Environment",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: hot
        ),
        .target(
            name: "CouchDBServer",
            dependencies: [
                "CZlib", "Digests", "Documents", "DocumentStore", "Encodings", "Environment", "HTTPServer", "Interfaces", "Replication", "Selectors",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "TLS", dependencies: ["COpenSSL", "Digests", "Encodings", "Environment", .product(name: "NIOCore", package: "swift-nio")], swiftSettings: hot),
        // The local network, by the Avahi of the system.
        .target(
            name: "Discovery",
            dependencies: [
                "Encodings", "Environment",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .target(
            name: "PluginHost",
            dependencies: [
                "LuaRuntime", "Interfaces", "Encodings", "Environment", "Documents", "Digests",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: hot
        ),
        .target(
            name: "Transport",
            dependencies: [
                "Digests", "Documents", "Encodings", "Environment", "HTTPServer", "Interfaces", "MessageEndpoints", "TLS",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: hot
        ),

        // The composition of all the parts.
        .target(
            name: "Agent",
            dependencies: [
                "AgentConfiguration", "CLoader", "CMalloc", "CTimex", "CouchDBServer", "Digests", "Discovery", "DocumentStore", "Documents", "Encodings", "Environment", "HTTPServer", "Interfaces",
                "LuaRuntime", "MessageEndpoints", "PluginHost", "Replication", "TLS", "Transport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            // The dashboard's page, embedded in the program: HTML, CSS and JavaScript exactly as written.
            resources: [
                "index.html", "style.css", "icon.svg", "main.js", "api.js", "dom.js", "overview.js", "charts.js", "listeners.js", "replicators.js",
                "plugins.js", "conflicts.js", "documents.js", "log.js",
            ].map { .embedInCode("Dashboard/Page/\($0)") },
            swiftSettings: strict
        ),
        .executableTarget(
            name: "nightjar",
            dependencies: [
                "Agent", "AgentConfiguration", "Digests", "Discovery", "DocumentStore", "Documents", "Encodings", "Environment", "HTTPServer", "Interfaces",
                "LuaRuntime", "MessageEndpoints", "PluginHost", "Replication", "TLS", "Transport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: small
        ),
        .executableTarget(
            name: "nightjar-bench",
            dependencies: [
                "BLIP", "CSQLite", "CSystemLua", "DocumentStore", "Documents", "Encodings", "Environment", "Interfaces", "LuaRuntime", "PluginHost", "Replication",
                "Selectors", "TLS", "Transport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict
        ),

        // The tests of each module, and the rules for all sources.
        .target(name: "TestRandomness", path: "Tests/TestRandomness", swiftSettings: hot),
        .testTarget(name: "EncodingsTests", dependencies: ["Encodings"], swiftSettings: strict),
        .testTarget(name: "DigestsTests", dependencies: ["Digests", "Encodings"], swiftSettings: strict),
        .testTarget(name: "DocumentsTests", dependencies: ["TestRandomness", "Documents", "Digests"], swiftSettings: strict),
        .testTarget(name: "SelectorsTests", dependencies: ["TestRandomness", "Selectors", "Documents"], swiftSettings: strict),
        .testTarget(name: "SQLiteTests", dependencies: ["SQLite", "TestSupport"], swiftSettings: strict),
        .testTarget(name: "DocumentStoreTests", dependencies: ["TestRandomness", "TestSupport", "DocumentStore", "Documents", "Digests", "Selectors", "SQLite"], swiftSettings: strict),
        .testTarget(name: "BLIPTests", dependencies: ["TestRandomness", "BLIP", "Encodings", .product(name: "NIOCore", package: "swift-nio")], swiftSettings: strict),
        .testTarget(name: "LuaRuntimeTests", dependencies: ["TestRandomness", "LuaRuntime", "Environment"], swiftSettings: strict),
        .testTarget(name: "DiscoveryTests", dependencies: ["TestRandomness", "Discovery", "Environment"], swiftSettings: strict),
        .testTarget(
            name: "PluginHostTests",
            dependencies: [
                "PluginHost", "LuaRuntime", "Interfaces", "Encodings", "Environment", "Documents", "Digests", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TLSTests",
            dependencies: [
                "TestRandomness", "TLS", "Digests", "Environment", "TestSupport", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOEmbedded", package: "swift-nio"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "CouchDBServerTests",
            dependencies: [
                "CouchDBServer", "Documents", "DocumentStore", "Environment", "HTTPServer", "Replication", "Selectors", "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "HTTPServerTests",
            dependencies: [
                "Environment", "HTTPServer", .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"), .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "TransportTests",
            dependencies: [
                "TestRandomness", "Transport", "HTTPServer", "Interfaces", "Encodings", "Environment", "Digests", "TLS",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"), .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "MessageEndpointsTests",
            dependencies: [
                "MessageEndpoints", "Replication", "Interfaces", "Environment", "Transport", "DocumentStore", "Documents", "SimulationSupport", "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "ReplicationTests",
            dependencies: [
                "TestRandomness", "Replication", "Interfaces", "Environment", "Transport", "BLIP", "DocumentStore", "Documents", "Digests", "Encodings", "HTTPServer", "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"), .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(name: "AgentConfigurationTests", dependencies: ["TestRandomness", "AgentConfiguration"], swiftSettings: strict),

        .testTarget(
            name: "AgentTests",
            dependencies: ["Agent", "AgentConfiguration", "Digests", "Discovery", "Documents", "DocumentStore", "Environment", "Encodings", "HTTPServer", "Interfaces", "PluginHost", "Replication", "TLS", "TestSupport", "Transport", .product(name: "Logging", package: "swift-log"), .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio")],
            swiftSettings: strict),
        .testTarget(name: "HouseTests", dependencies: ["nightjar", "Documents", "TestSupport"], swiftSettings: strict),

        // A simulated machine: in memory, on one thread, driven by a seed.
        .target(
            name: "SimulationSupport",
            dependencies: [
                "TestRandomness", "Environment", "CSQLite", "Documents", "DocumentStore", "Interfaces", "Replication",
                .product(name: "Logging", package: "swift-log"), .product(name: "NIOCore", package: "swift-nio"),
            ],
            path: "Tests/SimulationSupport", swiftSettings: hot),
        .testTarget(
            name: "SimulationTests", dependencies: ["SimulationSupport", "Environment", "DocumentStore", "Documents"],
            swiftSettings: strict),
        .testTarget(
            name: "SimulationSupportTests",
            dependencies: ["SimulationSupport", "Digests", "Environment", "DocumentStore", "Documents", "SQLite"], swiftSettings: strict),

        // The product as its users see it: processes, sockets and files.
        .target(
            name: "TestSupport", dependencies: ["BLIP", "COpenSSL", "Digests", "Documents", "Encodings", .product(name: "NIOCore", package: "swift-nio")],
            path: "Tests/TestSupport", swiftSettings: strict),
        .testTarget(name: "CommandLineTests", dependencies: ["nightjar", "TestSupport", "Digests", "Documents"], swiftSettings: strict),
        .testTarget(
            name: "IntegrationTests",
            dependencies: ["TestRandomness", "nightjar", "TestSupport", "BLIP", "Documents", "Digests", "Encodings", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict
        ),
        .testTarget(
            name: "AttackTests",
            dependencies: ["nightjar", "TestSupport", "BLIP", "Documents", "Digests", "Encodings", .product(name: "NIOCore", package: "swift-nio")],
            swiftSettings: strict
        ),
    ]
)

// The fuzz targets, whose corpora the tests replay; with NIGHTJAR_FUZZ set they are built as a program around libFuzzer instead (Tests/run --fuzz).
let fuzzed: [Target.Dependency] = [
    "Agent", "AgentConfiguration", "BLIP", "CouchDBServer", "Digests", "Documents", "DocumentStore", "Encodings", "Environment", "HTTPServer", "Interfaces",
    "LuaRuntime", "MessageEndpoints", "Replication", "TLS", "Transport",
    .product(name: "Logging", package: "swift-log"),
    .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOEmbedded", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
]
if Context.environment["NIGHTJAR_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "nightjar-fuzz", dependencies: fuzzed, path: "Tests/FuzzingTests", exclude: ["Replaying"], swiftSettings: strict))
} else {
    package.targets.append(
        .testTarget(name: "FuzzingTests", dependencies: fuzzed + ["TestRandomness", "TestSupport"], exclude: ["Running"], swiftSettings: strict))
}
