import Documents
import Glibc
import TestSupport
import Testing

/// The library product, as somebody else's package has it.
@Suite("The library product")
struct ProductTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Packages are read, perhaps fetched, and with NIGHTJAR_IMPORT compiled.
    private static let patience = Duration.seconds(1_800)
    private static var builds: Bool { getenv("NIGHTJAR_IMPORT") != nil }

    @discardableResult
    private func run(_ arguments: String...) async throws -> Subprocess.Outcome { try await outcome(arguments) }

    private func succeeds(_ arguments: String...) async throws {
        let outcome = try await outcome(arguments)
        guard outcome.status == 0 else { throw SupportError("\(arguments.joined(separator: " ")): \(outcome)") }
    }

    /// Without the variable that Tests/run sets, which adds an unsafe flag to the targets.
    private func outcome(_ arguments: [String]) async throws -> Subprocess.Outcome {
        try await Subprocess.run("/usr/bin/env", ["-u", "NIGHTJAR_TESTS"] + arguments, folder: folder.path, within: Self.patience)
    }

    /// This tree with a version, as a repository that a package can name.
    private func release() async throws {
        folder.makeFolder("nightjar")
        for name in ["Package.swift", "Sources", "Tests"] { try await succeeds("cp", "-r", "\(SourceFiles.root)/\(name)", "nightjar/") }
        try await succeeds("git", "init", "-q", "nightjar")
        try await succeeds("git", "-C", "nightjar", "add", "-A")
        try await succeeds("git", "-C", "nightjar", "-c", "user.name=test", "-c", "user.email=test@test.invalid", "commit", "-q", "-m", "a version")
        try await succeeds("git", "-C", "nightjar", "tag", "1.0.0")
    }

    /// What this build has fetched is not fetched again.
    private func useFetchedPackages() async throws {
        let repositories = "\(SourceFiles.root)/.build/repositories"
        let fetched = SourceFiles.names(in: repositories)
        folder.makeFolder("packages")
        let resolved = try JSONValue(parsing: TemporaryFolder.bytes(of: "\(SourceFiles.root)/Package.resolved"))
        for pin in resolved["pins"]?.asArray ?? [] {
            guard let name = pin["identity"]?.asString, let location = pin["location"]?.asString,
                let found = fetched.first(where: { $0.hasPrefix("\(name)-") && !$0.dropFirst(name.count + 1).contains("-") })
            else { continue }
            guard symlink("\(repositories)/\(found)", folder.path("packages/\(name)")) == 0 else { continue }
            try await succeeds(
                "swift", "package", "--package-path", "outside", "config", "set-mirror", "--original", location, "--mirror",
                "file://\(folder.path("packages/\(name)"))")
        }
    }

    @Test("A package outside depends on it by version; with NIGHTJAR_IMPORT it is built and runs")
    func imported() async throws {
        try await release()
        try folder.write("outside/Package.swift", """
            // swift-tools-version:6.1
            import PackageDescription

            let package = Package(
                name: "outside",
                dependencies: [.package(url: "file://\(folder.path("nightjar"))", from: "1.0.0")],
                targets: [.executableTarget(name: "outside", dependencies: [.product(name: "MessageEndpoints", package: "nightjar")])])
            """)
        try folder.write("outside/Sources/outside/main.swift", """
            import DocumentStore
            import MessageEndpoints
            import Replication

            print("has \\(Database.self), \\(Replicator.self), \\(MessageEndpointListener.self)")
            """)
        try await useFetchedPackages()
        // Reading the graph is where SwiftPM refuses a product with unsafe flags.
        try await succeeds("swift", "package", "--package-path", "outside", "show-dependencies")
        guard Self.builds else { return }
        let ran = try await run("swift", "run", "--package-path", "outside")
        #expect(ran.status == 0 && ran.output.contains("has Database, Replicator, MessageEndpointListener"), "\(ran)")
    }

    @Test("Every release build optimises across targets", arguments: [
        "README.md", "examples/deploy/build-release", "examples/quickstart/run", "Tests/run",
    ])
    func releases(_ file: String) {
        let text = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)"), as: UTF8.self)
        #expect(text.contains("-c release") && text.contains("NIGHTJAR_RELEASE=1"), "\(file)")
    }

    @Test("Packages and images have the program of build-release", arguments: ["examples/deploy/Containerfile", "examples/deploy/make-package"])
    func packages(_ file: String) {
        let text = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)"), as: UTF8.self)
        #expect(text.contains("build-release") && !text.contains("swift build"), "\(file)")
    }

    @Test("NIGHTJAR_RELEASE=1 is what Package.swift reads, and gives every target the flag")
    func flags() async throws {
        let package = String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/Package.swift"), as: UTF8.self)
        try folder.write("package/Package.swift", package)
        let without = try await run("swift", "package", "--package-path", "package", "dump-package")
        let with = try await run("env", "NIGHTJAR_RELEASE=1", "swift", "package", "--package-path", "package", "dump-package")
        #expect(without.status == 0 && !without.output.contains("-cross-module-optimization"), "\(without.errors)")
        #expect(with.status == 0 && with.output.contains("-cross-module-optimization"), "\(with.errors)")
    }
}
