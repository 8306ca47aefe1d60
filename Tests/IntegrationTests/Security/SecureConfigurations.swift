import Documents
import TestSupport

extension Configuration {
    /// An agent with listeners on loopback for its database `main`: name and further keys of each.
    static func secureHub(
        _ listeners: [(name: String, more: String)], database: String = "{}", plugins: Bool = false, log: String = "info"
    ) -> String {
        var text = "data: data\nadmin: { port: 0, open: true }\nlog: { level: \(log) }\n\(plugins ? "plugins: plugins\n" : "")"
        text += "databases: { main: \(database) }\nlisteners:\n"
        for listener in listeners {
            text += "  - { name: \(listener.name), databases: [ main ], interface: 127.0.0.1, port: 0"
            text += listener.more.isEmpty ? " }\n" : ", \(listener.more) }\n"
        }
        return text
    }

    /// An agent with continuous replicators from its database `main`: name, target and further keys of each.
    static func secureEdge(
        _ replicators: [(name: String, target: String, more: String)], database: String = "{}", log: String = "info", wait: Int = 1
    ) -> String {
        // Several to one target have a database each: of one database they would share a checkpoint.
        let databases = replicators.indices.map { index in
            replicators[..<index].contains { $0.target == replicators[index].target } ? "main\(index)" : "main"
        }
        var text = "data: data\nadmin: { port: 0, open: true }\nlog: { level: \(log) }\ndatabases:\n"
        for name in Set(databases).sorted() { text += "  \(name): \(database)\n" }
        text += "replicators:\n"
        for (replicator, name) in zip(replicators, databases) {
            text += "  - { name: \(replicator.name), database: \(name), target: \"\(replicator.target)\", continuous: true, max_attempt_wait_time: \(wait)"
            text += replicator.more.isEmpty ? " }\n" : ", \(replicator.more) }\n"
        }
        return text
    }
}

extension AgentProcess {
    /// The pin of a listener's certificate, as its status shows it.
    func pin(_ listener: String) async throws -> String {
        guard let pin = try await self.listener(listener)["tls"]?["pin"]?.asString else { throw SupportError("\(listener) has no pin") }
        return pin
    }

    /// The URL of the database `main` at a listener.
    func target(_ listener: String, scheme: String = "wss", host: String = "127.0.0.1") throws -> String {
        "\(scheme)://\(host):\(try port(listener))/main"
    }

    /// Waits until a replicator gets no further, and gives its error.
    func refusal(_ replicator: String) async throws -> JSONValue {
        try await waits("failed", replicator: replicator) { $0["activity"]?.asString == "offline" && $0["error"]?.isNull == false }
        return try await self.replicator(replicator)["error"] ?? .null
    }

    /// Waits until a replicator is connected and done.
    func connects(_ replicator: String) async throws {
        try await waits("idle without an error", replicator: replicator) { $0["activity"]?.asString == "idle" && $0["error"]?.isNull == true }
    }

    /// What stands in `/metrics`.
    func metrics() async throws -> String { try await admin.get("/metrics").text }

    /// Replaces its configuration and has it applied.
    func reload(_ configuration: String) async throws -> Subprocess.Outcome {
        try folder.write("nightjar.yaml", configuration)
        return try await command("reload")
    }
}

/// Runs a tool to its end.
func tool(_ name: String, _ arguments: String..., input: Subprocess.Input = .none, folder: String? = nil) async throws -> Subprocess.Outcome {
    try await Subprocess.run("/usr/bin/\(name)", arguments, folder: folder, input: input)
}
