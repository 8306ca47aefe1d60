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

    @Test(
        "a port that needs a right is named with that right, by doctor and at the start",
        .enabled(if: geteuid() == 0 && TemporaryFolder.canRun("/usr/bin/setpriv"), "takes a right away from root"))
    func port() async throws {
        let folder = try TemporaryFolder()
        // Port 1: nothing listens there.
        try folder.write("nightjar.yaml", Configuration.plain.replacing("port: 0, interface: 127.0.0.1", with: "port: 1, interface: 127.0.0.1"))
        for arguments in [["doctor", "--offline"], ["run"]] {
            let outcome = try await Subprocess.run(
                "/usr/bin/setpriv",
                ["--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service", try NightjarExecutable.path()] + arguments + ["--config", "nightjar.yaml"],
                folder: folder.path)
            #expect(outcome.status != 0, "\(outcome)")
            let said = outcome.output + outcome.errors
            #expect(said.contains("Permission denied") && said.contains("AmbientCapabilities= and CapabilityBoundingSet="), "\(outcome)")
            #expect(!said.contains("network/17"), "\(outcome)")
        }
    }

    @Test("it names what is wrong with peers, certificates, plugins and the configuration, each with a remedy, and ends with 1")
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

    @Test("a peer that admits us is ok, and one that requires another password is wrong, with a remedy")
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
        // A plugin that makes tokens is the agent's to ask.
        let edge = try TemporaryFolder()
        try edge.write("plugins/maker.lua", "return { token = function(ctx) return 'made' end }\n")
        try edge.write("nightjar.yaml", """
            data: data
            plugins: plugins
            databases: { main: {} }
            listeners: []
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(try hub.port("edge"))/main", authenticator: { plugin: maker } }

            """)
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["doctor", "--json", "--config", "nightjar.yaml"], folder: edge.path)
        #expect(Self.has(try Self.findings(outcome), "peer", "ok", "the plugin was not asked for the token or session"), "\(outcome)")
    }

    /// Makes `early.pem`, an authority and an identity at once, which is valid from 2049 on.
    private static let early = """
        : > index.txt
        printf '[ca]\\ndefault_ca=x\\n[x]\\ndatabase=index.txt\\nnew_certs_dir=.\\nrand_serial=yes\\ndefault_md=sha256\\npolicy=p\\nx509_extensions=e\\n[p]\\n\
        commonName=supplied\\n[e]\\nbasicConstraints=CA:TRUE\\n' > ca.cnf
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out early.key
        chmod 600 early.key
        openssl req -new -key early.key -subj /CN=early -out early.csr
        openssl ca -batch -selfsign -config ca.cnf -in early.csr -keyfile early.key -startdate 20490101000000Z -enddate 20591231235959Z -notext -out early.pem
        """

    @Test("a certificate that is not valid yet is wrong, with its date, wherever it is used")
    func notYetValid() async throws {
        let folder = try TemporaryFolder()
        try folder.write("make", Self.early)
        let made = try await Subprocess.run("/bin/sh", ["-e", "make"], folder: folder.path)
        try #require(made.status == 0, "\(made)")
        try folder.write("nightjar.yaml", """
            data: data
            databases: { main: {} }
            listeners:
              - name: edge
                databases: [ main ]
                port: 0
                interface: 127.0.0.1
                identity: { certificate: early.pem, key: early.key }
                roots: [ early.pem ]
                client_certificates: require
            replicators:
              - name: hub
                database: main
                target: "wss://127.0.0.1:9/main"
                roots: [ early.pem ]
                authenticator: { identity: { certificate: early.pem, key: early.key } }

            """)
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["doctor", "--offline", "--quick", "--json", "--config", "nightjar.yaml"], folder: folder.path)
        let found = try Self.findings(outcome).filter { $0["area"] == "certificate" }
        #expect(outcome.status == 1 && found.count == 4, "\(outcome)")
        #expect(found.allSatisfy { $0["verdict"] == "wrong" && $0.text.contains("not valid before 2049-01-01") && $0["mend"]?.asString?.contains("clock") == true }, "\(outcome)")
        for text in ["listener edge: CN=early", "listener edge roots: ", "replicator hub: CN=early", "replicator hub roots: "] {
            #expect(Self.has(found, "certificate", "wrong", text), "\(text)\n\(outcome)")
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
        #expect(outcome.output.contains("nightjar blob put main FILE"), "\(outcome)")
        if let agent {
            // What was found is set aside: health names it from now on.
            let health = try await agent.admin.get("/health").text
            #expect(health.contains("documents_damaged") && health.contains("were altered on disk") && !health.contains("database_unreadable"), "\(health)")
            #expect(try await !run("doctor", "--json").output.contains("database_unreadable"))
            #expect(try await agent.stop().status == 0)
        }
    }

    /// What is done to a machine before the agent starts, and a word of what the doctor says of it.
    enum Trouble: String, CaseIterable {
        case takenAdminPort = "ss -ltnp", longFolder = "use a shorter data folder", dataIsAFile = "is not a folder", lostDatabase = "db.sqlite3"
        case noDatabase = "not a database", badToken = "holds no token"
    }

    @Test("what run refuses is wrong for doctor --quick too, and what it accepts is not", arguments: Trouble.allCases)
    func quick(_ trouble: Trouble) async throws {
        let folder = try TemporaryFolder()
        let taken = try TakenPort()
        var configuration = Configuration.plain
        switch trouble {
        case .takenAdminPort: configuration = configuration.replacing("port: 0, open: true", with: "port: \(taken.port), open: true")
        case .longFolder: configuration = configuration.replacing("data: data", with: "data: \(String(repeating: "d", count: 120))")
        case .badToken: configuration = configuration.replacing("port: 0, open: true", with: "port: 0")
        case .dataIsAFile, .lostDatabase, .noDatabase: break
        }
        try folder.write("nightjar.yaml", configuration)
        func run(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "nightjar.yaml"], folder: folder.path)
        }
        if trouble == .dataIsAFile { try folder.write("data", "a file\n") }
        if ![Trouble.dataIsAFile, .longFolder].contains(trouble) {
            // A data folder as an agent leaves it.
            #expect(try await run("doc", "put", "main", "a", "{}").status == 0)
            if trouble != .takenAdminPort {
                let well = try await run("doctor", "--quick", "--offline", "--json")
                #expect(try well.status == 0 && Self.has(Self.findings(well), "store", "ok", "database main opens"), "\(well)")
            }
        }
        switch trouble {
        case .lostDatabase: folder.remove("data/main.nightjar")
        case .noDatabase: try folder.write("data/main.nightjar/db.sqlite3", String(repeating: "no database ", count: 1_000))
        case .badToken:
            try folder.write("data/admin.token", "x\n")
            chmod(folder.path("data/admin.token"), 0o600)
        case .takenAdminPort, .longFolder, .dataIsAFile: break
        }
        let doctor = try await run("doctor", "--quick", "--offline", "--json")
        #expect(doctor.status == 1, "\(doctor)")
        #expect(try Self.findings(doctor).contains { $0["verdict"] == "wrong" && $0.text.contains(trouble.rawValue) }, "\(doctor)")
        let agent = try await run("run")
        #expect(agent.status != 0, "\(agent)")
        withExtendedLifetime(taken) {}
    }

    @Test("a data folder that does not exist, or that others can access, is a warning that says what to do")
    func dataFolder() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        func disk() async throws -> JSONValue? {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["doctor", "--quick", "--offline", "--json", "--config", "nightjar.yaml"], folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
            return try Self.findings(outcome).first { $0["area"] == "disk" && $0["text"]?.asString?.contains("the data folder") == true }
        }
        let absent = try await disk()
        #expect(absent?["verdict"] == "warning" && absent?["text"]?.asString?.hasSuffix("/data does not exist") == true, "\(absent?.text ?? "nothing")")
        #expect(absent?["mend"]?.asString?.hasPrefix("before the first start there is nothing to do: nightjar run creates it. If an agent") == true)
        folder.makeFolder("data")
        chmod(folder.path("data"), 0o750)
        let open = try await disk()
        #expect(open?["text"]?.asString?.hasSuffix("/data (permissions 0750, and 0700 is expected)") == true, "\(open?.text ?? "nothing")")
        #expect(open?["mend"]?.asString == "chmod 700 \(folder.path("data"))")
    }

    @Test("a port counts as free on the listener's address, even if another program has it elsewhere")
    func ports() async throws {
        let folder = try TemporaryFolder()
        let taken = try TakenPort()
        for (address, isFree) in [("127.0.0.2", true), ("127.0.0.1", false)] {
            try folder.write(
                "nightjar.yaml", Configuration.plain.replacing("port: 0, interface: 127.0.0.1", with: "port: \(taken.port), interface: \(address)"))
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["doctor", "--quick", "--offline", "--json", "--config", "nightjar.yaml"], folder: folder.path)
            #expect(Self.has(try Self.findings(outcome), "listener", isFree ? "ok" : "wrong", "port \(taken.port)"), "\(outcome)")
        }
        withExtendedLifetime(taken) {}
    }

    @Test("how much of its quota a database uses is reported", arguments: Place.allCases)
    func quotas(_ place: Place) async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.plain.replacing("main: { collections", with: "main: { quota: 1MiB, collections")
        try folder.write("nightjar.yaml", configuration)
        func run(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "nightjar.yaml"], folder: folder.path)
        }
        #expect(try await run("doc", "put", "main", "a", "{}").status == 0)
        let agent = place == .agent ? try await AgentProcess.start(configuration, in: folder) : nil
        for arguments in [["doctor", "--offline", "--json"], ["doctor", "--offline", "--quick", "--json"]] {
            let outcome = try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "nightjar.yaml"], folder: folder.path)
            #expect(try outcome.status == 0 && Self.has(Self.findings(outcome), "store", "ok", "of its quota of 1.0 MiB"), "\(outcome)")
        }
        if let agent { #expect(try await agent.stop().status == 0) }
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

    @Test("an agent that runs with another configuration is no damaged database; where no file is named, the agent's is, and what it has not read yet is told")
    func otherConfiguration() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start("data: data\ndatabases: { plant: {} }\nlisteners: []\n", in: folder)
        try folder.write("other.yaml", "data: data\ndatabases: { main: {} }\nlisteners: []\n")
        let outcome = try await NightjarExecutable.run("doctor", "--config", "other.yaml", "--json", "--offline", folder: folder.path)
        let findings = try Self.findings(outcome)
        #expect(Self.has(findings, "store", "warning", "the agent that runs has no database main"), "\(outcome)")
        #expect(!findings.contains { $0["area"] == "store" && $0["verdict"] == "wrong" } && outcome.status == 0, "\(outcome)")
        #expect(outcome.output.contains("--config") && !outcome.output.contains("database_unreadable"), "\(outcome)")

        // The agent's word for its file is shown, and not acted upon.
        let unnamed = try Self.findings(try await NightjarExecutable.run("doctor", "--data", "data", "--json", "--offline", folder: folder.path))
        #expect(Self.has(unnamed, "configuration", "warning", "says that it has \(folder.path("nightjar.yaml"))"), "\(unnamed)")
        #expect(unnamed.contains { $0["mend"]?.asString == "nightjar doctor --config \(folder.path("nightjar.yaml"))" }, "\(unnamed)")

        @Sendable func isTold() async throws -> Bool {
            Self.has(try Self.findings(try await agent.command("doctor", "--json", "--offline")), "configuration", "warning", "it has been changed since")
        }
        #expect(try await !isTold())
        try folder.write("nightjar.yaml", "data: data\ndatabases: { plant: {}, more: {} }\nlisteners: []\n")
        try await eventually("the change is told") { try await isTold() }
        #expect(try await agent.command("reload").status == 0)
        #expect(try await !isTold())
        #expect(try await agent.stop().status == 0)
        let alone = try Self.findings(try await NightjarExecutable.run("doctor", "--data", "data", "--json", "--offline", folder: folder.path))
        #expect(Self.has(alone, "configuration", "warning", "no file was named"), "\(alone)")
    }

    @Test("many tombstones that nothing purges are reported, unless tombstone_age is set", arguments: Place.allCases)
    func tombstones(_ place: Place) async throws {
        for age in ["", "tombstone_age: 31536000, "] {
            let folder = try TemporaryFolder()
            let configuration = Configuration.plain.replacing("main: { collections", with: "main: { \(age)collections")
            try folder.write("nightjar.yaml", configuration)
            let agent = place == .agent ? try await AgentProcess.start(configuration, in: folder) : nil
            let documents = Documents(folder: folder, agent: agent)
            let lines = (0..<1_000).map { "{\"_id\":\"d\($0)\",\"_deleted\":true}\n" }.joined()
            let imported = try await documents.run("import", "main", input: .text(lines))
            #expect(imported.status == 0, "\(imported)")
            let outcome = try await documents.run("doctor", "--json", "--offline")
            let isTold = try Self.has(Self.findings(outcome), "store", "warning", "keeps 1000 tombstones beside 0 documents, and keeps them for ever")
            #expect(outcome.status == 0 && isTold == age.isEmpty, "\(outcome)")
        }
    }
}
