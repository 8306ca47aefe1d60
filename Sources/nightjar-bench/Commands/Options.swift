import ArgumentParser
import Glibc

/// The options of every scenario.
struct CommonOptions: ParsableArguments {
    @Option(help: "Folder for the databases; on the disk that is to be measured, not in memory.")
    var scratch = "/var/tmp"
    @Option(help: ArgumentHelp("Writes the report as JSON to a file; - for standard output instead of the table.", valueName: "file"), completion: .file())
    var json: String?

    /// Runs scenarios in a separate folder and prints their reports.
    func report(_ body: (Scratch) async throws -> Report) async throws {
        let folder = try Scratch(parent: scratch)
        defer { folder.remove() }
        let report = try await body(folder)
        try show(report)
        if json == "-" { print(report.json) } else if let json { try Files.write(report.json + "\n", to: json) }
    }

    func show(_ report: Report) throws {
        if json != "-" { try tell(report.table) }
    }
}

/// The locations of the agent's executable and the plugins.
struct AgentOptions: ParsableArguments {
    @Option(help: "The agent's executable; by default nightjar beside this one.")
    var agent: String?
    @Option(help: "A folder with ten plugins; by default the folder plugins above this executable.")
    var plugins: String?

    func agentPath() throws -> String {
        let path = try agent ?? Self.folder(of: Child.ownPath()) + "/nightjar"
        guard access(path, X_OK) == 0 else {
            throw BenchError("\(path): no executable; build it with: NIGHTJAR_RELEASE=1 swift build -c release --product nightjar")
        }
        return path
    }

    func pluginsPath() throws -> String {
        if let plugins { return plugins }
        var folder = Self.folder(of: try Child.ownPath())
        while folder.utf8.count > 1 {
            if Files.exists("\(folder)/plugins/threshold.lua") { return "\(folder)/plugins" }
            folder = Self.folder(of: folder)
        }
        throw BenchError("no folder plugins above this executable; name one with --plugins")
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
        return String(path[..<slash])
    }
}
