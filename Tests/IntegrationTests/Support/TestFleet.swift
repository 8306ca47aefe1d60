import Documents
import TestSupport
import Testing

/// A hub with the collection of a fleet, a publisher with a signing key, and gateways that believe it.
struct TestFleet {
    static let collection = "nightjar.fleet"
    static let place = "main.\(collection)"

    var hub: AgentProcess
    /// Files of the publisher.
    var desk: TemporaryFolder
    var key: String

    static func make(_ listener: String = "", publishers: String = "") async throws -> TestFleet {
        let desk = try TemporaryFolder()
        let key = try await newKey("key.pem", in: desk)
        let hub = try await AgentProcess.start(
            hubConfiguration(listener, publishers: publishers), in: listener.contains("plugin:") ? try folderWithUsers() : nil)
        return TestFleet(hub: hub, desk: desk, key: key)
    }

    static func newKey(_ file: String, in desk: TemporaryFolder) async throws -> String {
        let made = try await NightjarExecutable.run("fleet", "keygen", desk.path(file))
        return String(made.output.split(separator: "\n").first ?? "")
    }

    static func hubConfiguration(_ listener: String = "", publishers: String = "", port: Int = 0) -> String {
        Configuration.hub(database: "{ collections: [ \(collection) ] }", listener: listener, plugins: listener.contains("plugin:"), port: port)
            + (publishers.isEmpty ? "" : "\nfleet: { database: main, publishers: [ \(publishers) ] }\n")
    }

    private static func folderWithUsers() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", "return { authenticate_password = function(user, password) return password == 'secret' end }\n")
        return folder
    }

    /// - Parameters:
    ///   - fleet: what it accepts.
    ///   - filter: of its default collection's replication.
    ///   - plugins: it has a folder of its own.
    func configuration(
        _ id: String, label: String = "plain", fleet: String = "accept: [ plugins ]", filter: String? = "gate", plugins: Bool = true,
        database: String = "", login: String = "", more: String = ""
    ) throws -> String {
        """
        data: data
        \(plugins ? "plugins: plugins" : "")
        admin: { port: 0, open: true }
        databases: { main: { collections: [ \(Self.collection) ]\(database.isEmpty ? "" : ", \(database)") } }
        fleet: { database: main, keys: [ "\(key)" ], \(fleet.isEmpty ? "" : "\(fleet), ")id: \(id), labels: [ \(label) ] }
        replicators:
          - name: hub
            database: main
            target: ws://127.0.0.1:\(try hub.port("edge"))/main
            type: push_and_pull
            continuous: true
            max_attempt_wait_time: 1
            collections: { _default: {\(filter.map { " push_filter: \($0) " } ?? "")}, \(Self.collection): {} }
            \(login)
        \(more)
        """
    }

    /// A gateway whose plugins folder has a filter that lets pass what has 0 in `n`.
    func gateway(_ id: String, label: String = "plain", login: String = "", in folder: TemporaryFolder? = nil) async throws -> AgentProcess {
        try await gateway(running: try configuration(id, label: label, login: login), in: folder)
    }

    /// - Parameter file: of the plugins folder, which has none where it is nil.
    func gateway(running configuration: String, in folder: TemporaryFolder? = nil, file: String? = TestFleet.passing(0)) async throws -> AgentProcess {
        let folder = try folder ?? TemporaryFolder()
        if configuration.contains("plugins: plugins\n") {
            folder.makeFolder("plugins")
            if let file, !folder.exists("plugins/gate.lua") { try folder.write("plugins/gate.lua", file) }
        }
        return try await AgentProcess.start(configuration, in: folder)
    }

    func publish(_ plugin: String, tests: String? = nil, signedBy key: String = "key.pem", _ arguments: String...) async throws -> Subprocess.Outcome {
        try desk.write("gate.lua", plugin)
        if let tests { try desk.write("gate.test.lua", tests) } else { desk.remove("gate.test.lua") }
        return try await command(["publish", desk.path("gate.lua")], signedBy: key, arguments)
    }

    /// A fragment of the configuration.
    func configure(_ text: String, named name: String = "site", _ arguments: String...) async throws -> Subprocess.Outcome {
        try desk.write("\(name).yaml", text)
        return try await command(["publish", desk.path("\(name).yaml")], arguments)
    }

    func withdraw(_ arguments: String...) async throws -> Subprocess.Outcome { try await command(["withdraw"], arguments) }

    private func command(_ words: [String], signedBy key: String = "key.pem", _ arguments: [String]) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), ["fleet"] + words + ["--key", desk.path(key), "--config", hub.configuration] + arguments, folder: desk.path)
    }

    func status(_ id: String) async throws -> JSONValue? {
        let outcome = try await hub.command("fleet", "status", "--json")
        return try JSONValue(parsing: outcome.outputBytes).asArray?.first { $0["id"]?.asString == id }
    }

    /// What one gateway has of a plugin, or of a fragment.
    func row(_ id: String, _ kind: String = "plugins") async throws -> JSONValue? { try await status(id)?[kind]?.asArray?.first }

    func waits(_ id: String, runs version: Int64, _ kind: String = "plugins") async throws {
        try await eventually("\(id) runs version \(version)") { try await row(id, kind)?["version"]?.asInt64 == version }
    }

    func waits(_ id: String, refuses reason: String) async throws {
        try await eventually("\(id) refuses: \(reason)") {
            try await status(id)?["refused"]?.asArray?.contains { $0["reason"]?.asString?.contains(reason) == true } == true
        }
    }

    func waitsForNoRefusal(_ id: String) async throws {
        try await eventually("\(id) refuses nothing") { try await status(id)?["refused"]?.asArray?.isEmpty == true }
    }

    /// A filter that lets one number pass.
    static func passing(_ number: Int) -> String { "return { push_filter = function(doc) return doc.n == \(number) end }\n" }

    /// Which of two documents a gateway's filter lets go to the hub.
    func sends(_ gateway: AgentProcess, _ number: Int, _ id: String) async throws {
        try await gateway.save("\(id)-not", "{\"n\":\(number + 100)}")
        try await gateway.save(id, "{\"n\":\(number)}")
        try await eventually("\(id) passes the filter") { try await hub.has(id) }
        #expect(try await !hub.has("\(id)-not"))
    }
}
