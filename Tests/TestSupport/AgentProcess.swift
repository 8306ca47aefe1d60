import Documents
import Glibc

/// An agent that runs as a separate process: `nightjar run`.
package struct AgentProcess: Sendable {
    package let process: Subprocess
    /// Holds its configuration and, unless the configuration says otherwise, its data in `data`.
    package let folder: TemporaryFolder
    /// The `ready` line, which it writes once.
    package let ready: String

    /// Starts an agent and waits until it is ready.
    ///
    /// - Parameters:
    ///   - configuration: the text of `nightjar.yaml`; nil runs the embedded default, whose listener wants port 4984. Use port 0
    ///     for listeners and admin, so that the agents of several tests do not collide.
    ///   - folder: kept alive by the agent; pass an earlier agent's folder to run on its data.
    ///   - descriptors: arguments for `ulimit`, which runs first, such as `-n 128`.
    ///   - arguments: added after `run --config FILE`.
    ///   - through: a program, with its arguments, that then becomes the agent, such as `unshare -n`.
    package static func start(
        _ configuration: String?, in folder: TemporaryFolder? = nil, arguments: [String] = [], environment: [String: String] = [:],
        descriptors: String? = nil, through: [String] = []
    ) async throws -> AgentProcess {
        let folder = try folder ?? TemporaryFolder()
        var all = ["run"]
        if let configuration { all += ["--config", try folder.write("nightjar.yaml", configuration)] }
        let path = try NightjarExecutable.path()
        let process =
            if let descriptors {
                try Subprocess(
                    "/bin/sh", ["-c", "ulimit \(descriptors) && exec \"$@\"", "sh", path] + all + arguments, environment: environment, folder: folder.path)
            } else if let program = through.first {
                try Subprocess(program, Array(through.dropFirst()) + [path] + all + arguments, environment: environment, folder: folder.path)
            } else {
                try Subprocess(path, all + arguments, environment: environment, folder: folder.path)
            }
        let ready = try await process.line(containing: "ready")
        return AgentProcess(process: process, folder: folder, ready: ready)
    }

    /// The path of its configuration.
    package var configuration: String { folder.path("nightjar.yaml") }

    /// The addresses it listens on, from its ready line: each is `name=host:port`.
    package var addresses: [(name: String, address: String)] {
        // If the log is in JSON, the line is an object.
        let message = ready.hasPrefix("{") ? (try? JSONValue(parsing: Array(ready.utf8)))?["message"]?.asString : nil
        return (message ?? ready).split(separator: " ").compactMap { word in
            let parts = word.split(separator: "=", maxSplits: 1)
            return parts.count == 2 ? (String(parts[0]), String(parts[1])) : nil
        }
    }

    /// The TCP port of a listener, or of `admin`.
    package func port(_ name: String) throws -> Int {
        for (found, address) in addresses where found == name && !address.hasPrefix("unix:") {
            if let port = address.split(separator: ":").last.flatMap({ Int($0) }) { return port }
        }
        throw SupportError("no port for \(name) in: \(ready)")
    }

    /// The admin API over the local socket.
    package var admin: HTTPProbe {
        let path = addresses.first { $0.name == "admin" && $0.address.hasPrefix("unix:") }.map { String($0.address.dropFirst(5)) }
        return .unix(path ?? folder.path("data/admin.sock"))
    }

    /// `GET /api/status`.
    package func status() async throws -> JSONValue { try await admin.get("/api/status").json }

    /// One replicator in the status.
    package func replicator(_ name: String) async throws -> JSONValue {
        try named(name, in: "replicators", of: try await status())
    }

    /// One plugin in the status.
    package func plugin(_ name: String) async throws -> JSONValue { try named(name, in: "plugins", of: try await status()) }

    /// How many live documents a collection has.
    package func documents(_ database: String, collection: String = "_default._default") async throws -> Int64 {
        let found = try named(database, in: "databases", of: try await status())
        for entry in found["collections"]?.asArray ?? [] where entry["name"]?.asString == collection {
            if let count = entry["documents"]?.asInt64 { return count }
        }
        throw SupportError("no collection \(collection) in \(found.text)")
    }

    private func named(_ name: String, in list: String, of status: JSONValue) throws -> JSONValue {
        guard let found = status[list]?.asArray?.first(where: { $0["name"]?.asString == name }) else {
            throw SupportError("no \(name) in \(list): \(status.text)")
        }
        return found
    }

    /// Runs another command against this agent, with its `--config` added at the end.
    package func command(_ arguments: String..., input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), arguments + ["--config", configuration], folder: folder.path, input: input)
    }

    /// Saves a document.
    @discardableResult
    package func put(_ database: String, _ id: String, _ json: String) async throws -> HTTPProbe.Answer {
        try await admin.request("PUT", "/api/databases/\(database)/documents/\(id)", body: Array(json.utf8))
    }

    /// Reads a document; the status is 404 when there is none.
    package func get(_ database: String, _ id: String) async throws -> HTTPProbe.Answer {
        try await admin.get("/api/databases/\(database)/documents/\(id)")
    }

    /// Stops it with SIGTERM and returns its outcome.
    ///
    /// - Throws: ``SupportError`` with what the agent said, if it could not stop in time.
    @discardableResult
    package func stop() async throws -> Subprocess.Outcome {
        process.send(SIGTERM)
        let outcome = try await process.wait()
        // It gave up waiting and exited: its last line says what held it up. That one first, since a summary shows only the beginning.
        if outcome.status == 75 {
            let last = outcome.errors.split(separator: "\n").last ?? ""
            throw SupportError("the agent could not stop in time: \(last)\n\(outcome.errors.suffix(2_000))")
        }
        return outcome
    }
}
