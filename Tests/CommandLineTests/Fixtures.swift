import Documents
import TestSupport

/// Configurations of the tests' agents. Every port is 0, so that agents of several tests do not meet.
enum Configuration {
    static let plain = """
        data: data
        admin: { port: 0, open: true }
        databases:
          main: { collections: [ _default, plant.readings ] }
        listeners:
          - { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true }

        """

    /// The same with version vectors.
    static var versions: String { plain.replacing("main: { collections", with: "main: { version_vectors: true, collections") }

    /// A replicator at the end of ``plain``.
    static func replicator(_ name: String, to target: String, continuous: Bool = true, more: String = "") -> String {
        """
          - name: \(name)
            database: main
            target: \(target)
            continuous: \(continuous)
        \(more.isEmpty ? "" : "    \(more)\n")
        """
    }
}

/// Where a command finds documents; commands do the same on both.
enum Place: Sendable, CaseIterable { case agent, folder }

/// Documents at a running agent or in a folder that none holds.
struct Documents: Sendable {
    let folder: TemporaryFolder
    /// Nil where there is only a folder.
    let agent: AgentProcess?

    static func at(_ place: Place) async throws -> Documents {
        switch place {
        case .agent:
            let agent = try await AgentProcess.start(Configuration.plain)
            return Documents(folder: agent.folder, agent: agent)
        case .folder:
            let folder = try TemporaryFolder()
            try folder.write("nightjar.yaml", Configuration.plain)
            return Documents(folder: folder, agent: nil)
        }
    }

    func run(_ arguments: String..., input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), arguments + ["--config", folder.path("nightjar.yaml")], folder: folder.path, input: input)
    }
}

extension Subprocess.Outcome {
    /// Standard output as JSON.
    var json: JSONValue { get throws { try JSONValue(parsing: output) } }
    /// The lines of standard output.
    var lines: [String] { output.split(separator: "\n").map(String.init) }
}
