import Documents
import Glibc
import TestSupport
import Testing

/// `nightjar doctor`, with and without an agent.
@Suite("The doctor")
struct DoctorTests {
    private static func findings(_ outcome: Subprocess.Outcome) throws -> [JSONValue] { try outcome.json["findings"]?.asArray ?? [] }

    private static func has(_ findings: [JSONValue], _ area: String, _ verdict: String, _ text: String) -> Bool {
        findings.contains { $0["area"]?.asString == area && $0["verdict"]?.asString == verdict && $0["text"]?.asString?.contains(text) == true }
    }

    @Test("where all is well it says so, with and without an agent", arguments: Place.allCases)
    func well(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        #expect(try await documents.run("doc", "put", "main", "a", "{}").status == 0)
        let outcome = try await documents.run("doctor", "--json")
        let findings = try Self.findings(outcome)
        // The clock of a container is kept right by its host.
        #expect(outcome.status == 0, "\(outcome)")
        #expect(findings.allSatisfy { $0["verdict"] != "wrong" })
        #expect(Self.has(findings, "configuration", "ok", "1 database, 1 listener"))
        #expect(Self.has(findings, "store", "ok", "1 document and 0 blobs read, all sound"), "\(outcome)")
        #expect(Self.has(findings, "agent", place == .agent ? "ok" : "skipped", place == .agent ? "runs" : "no agent runs"))
        #expect(Self.has(findings, "disk", "ok", "MiB free") || Self.has(findings, "disk", "warning", "MiB free"))
        let text = try await documents.run("doctor")
        #expect(text.lines.contains { $0.hasPrefix("ok       store: database main") }, "\(text)")
    }

    @Test("it names what is wrong with peers, certificates, plugins and the configuration, each with a mend, and ends with 1")
    func wrong() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/broken.lua", "return {\n")
        try folder.write("nightjar.yaml", """
            data: data
            databases: { main: {} }
            listeners:
              - { name: edge, databases: [ main ], port: 0, identity: nobody, authenticator: none }
            replicators:
              - { name: nameless, database: main, target: "ws://nobody.invalid:4984/main" }
              - { name: closed, database: main, target: "ws://127.0.0.1:9/main" }
              - { name: program, database: main, target: "exec:no-such-program --x" }
              - { name: line, database: main, target: "serial:/dev/no-such-line" }
              - { name: socket, database: main, target: "unix:\(folder.path("no.sock"))" }

            """)
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["doctor", "--json", "--config", "nightjar.yaml"], folder: folder.path)
        let findings = try Self.findings(outcome)
        #expect(outcome.status == 1, "\(outcome)")
        for (area, text) in [
            ("configuration", "broken.lua"), ("configuration", "nobody"), ("certificate", "listener edge"), ("dns", "nobody.invalid"), ("peer", "closed: network/19"),
            ("peer", "there is no program no-such-program"), ("peer", "/dev/no-such-line: No such file"), ("peer", "no.sock: No such file"),
        ] { #expect(Self.has(findings, area, "wrong", text), "\(area): \(text)\n\(outcome)") }
        #expect(findings.allSatisfy { $0["verdict"] != "wrong" || $0["mend"]?.asString?.isEmpty == false }, "\(outcome)")
        let offline = try await Subprocess.run(
            try NightjarExecutable.path(), ["doctor", "--offline", "--quick", "--json", "--config", "nightjar.yaml"], folder: folder.path)
        #expect(try Self.findings(offline).allSatisfy { !["dns", "peer", "store"].contains($0["area"]?.asString ?? "") }, "\(offline)")
    }

    @Test("a peer that lets us in is ok, and one that wants another password is wrong with its remedy")
    func login() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", "return { authenticate_password = function(n, p) return p == 'right' and { name = n } end }\n")
        let hub = try await AgentProcess.start(
            "data: data\nplugins: plugins\ndatabases: { main: {} }\nlisteners: [ { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, authenticator: users } ]\n",
            in: folder)
        for (password, verdict, text) in [("right", "ok", "answers and lets us in"), ("wrong", "wrong", "http/401")] {
            let edge = try TemporaryFolder()
            try edge.write("nightjar.yaml", """
                data: data
                databases: { main: {} }
                listeners: []
                replicators:
                  - { name: hub, database: main, target: "ws://127.0.0.1:\(try hub.port("edge"))/main", authenticator: { username: ada, password: \(password) } }

                """)
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["doctor", "--json", "--config", "nightjar.yaml"], folder: edge.path)
            #expect(Self.has(try Self.findings(outcome), "peer", verdict, text), "\(outcome)")
            #expect(Self.has(try Self.findings(outcome), "dns", "ok", "127.0.0.1"), "\(outcome)")
            #expect((outcome.status == 0) == (verdict == "ok"))
        }
    }

    @Test("a damaged document, a damaged blob and a damaged file are found", arguments: Place.allCases)
    func damage(_ place: Place) async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        func run(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "nightjar.yaml"], folder: folder.path)
        }
        #expect(try await run("doc", "put", "main", "good", "{}").status == 0)
        #expect(try await run("doc", "put", "main", "bad", #"{"text":"abcdefghijklmnopqrstuvwxyz"}"#).status == 0)
        try folder.write("blob.bin", "the bytes of a blob")
        #expect(try await run("blob", "put", "main", "blob.bin").status == 0)
        // A disk that changes what was written.
        var bytes = try folder.read("data/main.nightjar/db.sqlite3")
        let at = try #require(bytes.firstRange(of: Array(#"{"text":"abcdef"#.utf8)))
        bytes[at.lowerBound] = UInt8(ascii: "X")
        try folder.write("data/main.nightjar/db.sqlite3", bytes: bytes)
        let blob = try #require(Self.names(folder.path("data/main.nightjar/blobs")).first)
        try folder.write("data/main.nightjar/blobs/\(blob)", "the bytes of a bl0b")
        let agent = place == .agent ? try await AgentProcess.start(Configuration.plain, in: folder) : nil
        let outcome = try await run("doctor", "--json")
        #expect(outcome.status == 1)
        #expect(Self.has(try Self.findings(outcome), "store", "wrong", "document bad is damaged"), "\(outcome)")
        #expect(Self.has(try Self.findings(outcome), "store", "wrong", "were altered on disk"), "\(outcome)")
        if let agent {
            // What was found is set aside: health names it from now on.
            #expect(try await agent.admin.get("/health").text.contains("documents_damaged"))
            #expect(try await agent.stop().status == 0)
        }
    }

    private static func names(_ folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }
}
