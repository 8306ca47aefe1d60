import Documents
import Glibc

/// An agent that runs as a process of its own: `nightjar run`.
package struct AgentProcess: Sendable {
    package let process: Subprocess
    /// Where its configuration is, and its data below `data`, unless the configuration says otherwise.
    package let folder: TemporaryFolder
    /// Its one `ready` line.
    package let ready: String

    /// Starts an agent and waits until it is ready.
    ///
    /// - Parameters:
    ///   - configuration: the text of `nightjar.yaml`; nil runs the embedded default, whose listener wants port 4984. Use port 0
    ///     for listeners and admin, so that agents of several tests do not meet.
    ///   - folder: kept by the agent; give the same one to run an agent on the data of one before.
    ///   - descriptors: what `ulimit` is told first, such as `-n 128`.
    ///   - arguments: behind `run --config FILE`.
    ///   - through: a program and its arguments that become the agent, such as `unshare -n`.
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

    /// The bound addresses of its ready line: each `name=host:port`.
    package var addresses: [(name: String, address: String)] {
        // With a log of JSON it is an object.
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
        throw SupportError("no port of \(name) in: \(ready)")
    }

    /// The admin API over the local socket.
    package var admin: HTTPProbe {
        let path = addresses.first { $0.name == "admin" && $0.address.hasPrefix("unix:") }.map { String($0.address.dropFirst(5)) }
        return .unix(path ?? folder.path("data/admin.sock"))
    }

    /// `GET /api/status`.
    package func status() async throws -> JSONValue { try await admin.get("/api/status").json }

    /// One replicator of the status.
    package func replicator(_ name: String) async throws -> JSONValue {
        try named(name, in: "replicators", of: try await status())
    }

    /// One plugin of the status.
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

    /// Runs another command on this agent: with its `--config` at the end.
    package func command(_ arguments: String..., input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), arguments + ["--config", configuration], folder: folder.path, input: input)
    }

    /// Saves a document.
    @discardableResult
    package func put(_ database: String, _ id: String, _ json: String) async throws -> HTTPProbe.Answer {
        try await admin.request("PUT", "/api/databases/\(database)/documents/\(id)", body: Array(json.utf8))
    }

    /// Reads a document; status 404 when there is none.
    package func get(_ database: String, _ id: String) async throws -> HTTPProbe.Answer {
        try await admin.get("/api/databases/\(database)/documents/\(id)")
    }

    /// Stops it with SIGTERM and gives its outcome.
    ///
    /// - Throws: ``SupportError`` with what the agent said where it could not stop in time.
    @discardableResult
    package func stop() async throws -> Subprocess.Outcome {
        process.send(SIGTERM)
        let outcome = try await process.wait()
        // It ended itself: what held it up is in the last line.
        if outcome.status == 75 { throw SupportError("the agent could not stop in time: \(outcome.errors.suffix(2_000))") }
        return outcome
    }
}
