import Documents
import Glibc
import TestSupport
import Testing

@Suite struct CheckTests {
    private static let good = """
        data: data
        databases:
          main: {}
        listeners:
          - { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true }
        """

    private static func check(_ text: String, _ more: String...) async throws -> Subprocess.Outcome {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", text)
        try folder.write("plugins/wants.lua", "return { params = { name = { type = \"string\", required = true } }, push_filter = function() return true end }")
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")] + more, folder: folder.path)
        // It starts nothing and makes nothing.
        #expect(!folder.exists("data"))
        return outcome
    }

    @Test func aGoodConfigurationIsStatus0() async throws {
        let outcome = try await Self.check(Self.good)
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.errors.isEmpty)
        let json = try await Self.check(Self.good, "--json")
        #expect(try json.json["ok"]?.asBool == true)
    }

    @Test func whatIsValidAndHardlyMeantIsAWarning() async throws {
        let text = Self.good.replacing("port: 0", with: "port: 4984") + """

            plugins: plugins
            plugin_limits: { want: { cpu_ms: 5 } }
            replicators:
              - { name: far, database: main, target: "ws://hub.example/main", authenticator: { username: u, password: secret-1 } }
              - { name: near, database: main, target: "ws://127.0.0.1:9/main", authenticator: { username: u, password: secret-1 } }
              - { name: mirror, database: main, target: "ws://localhost:4984/main" }
            """
        let outcome = try await Self.check(text)
        #expect(outcome.status == 0, "\(outcome)")
        let warnings = outcome.errors.split(separator: "\n")
        #expect(warnings.count == 3 && warnings.allSatisfy { $0.hasPrefix("warning: nightjar.yaml:") || $0.contains("nightjar.yaml:") }, "\(outcome)")
        for words in ["\"far\": sends its password in clear text to hub.example", "own listener \"edge\"", "no plugin \"want\"; did you mean \"wants\""] {
            #expect(outcome.errors.contains(words), "\(words): \(outcome)")
        }
        #expect(!outcome.errors.contains("secret-1"))
        #expect(try await Self.check(text, "--json").json["warnings"]?.asArray?.count == 3)
    }

    @Test func secretsInClearTextAreWarnedOf() async throws {
        let text = """
            data: data
            admin: { address: 0.0.0.0, port: 4985, token: a-token-of-thirty-two-characters }
            plugins: plugins
            databases: { main: {} }
            listeners:
              - { name: edge, databases: [ main ], port: 4984, disable_tls: true, authenticator: door }
              - { name: inside, databases: [ main ], port: 4983, disable_tls: true, authenticator: door, interface: 127.0.0.1 }
            replicators:
              - { name: far, database: main, target: "ws://hub.example/main", headers: { X-Site: "7", authorization: "Basic c2VjcmV0" } }
              - { name: open, database: main, target: "ws://other.example/main", headers: { X-Site: "7" } }
            """
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", text)
        try folder.write("plugins/door.lua", "return { authenticate_password = function() return true end }")
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        let told = [
            "nightjar.yaml:2:19: admin: the token travels in clear text", "nightjar.yaml:6:65: listener \"edge\": peers send their passwords in clear text",
            "replicator \"far\": sends its header authorization in clear text to hub.example",
        ]
        for words in told { #expect(outcome.errors.contains(words), "\(words): \(outcome)") }
        #expect(outcome.errors.split(separator: "\n").count == told.count, "\(outcome)")
        #expect(!outcome.errors.contains("c2VjcmV0"))
    }

    @Test func anEmptyFileIsAWarning() async throws {
        let outcome = try await Self.check("")
        #expect(outcome.status == 0 && outcome.errors.hasPrefix("warning: "), "\(outcome)")
        #expect(outcome.errors.contains("nightjar.yaml: it has no database, no listener and no replicator"), "\(outcome)")
        #expect(try await Self.check("databases: {}\n").errors.isEmpty)
    }

    @Test(arguments: ["data: data\n\tplugins: x\n", "databases:\n  main: {}\n\tother: {}\n"]) func aTabIsNamed(_ text: String) async throws {
        let outcome = try await Self.check(text)
        #expect(outcome.status == 78 && outcome.errors.contains("a tab stands here; YAML is indented with spaces"), "\(outcome)")
    }

    /// What is wrong, where it is shown, and words that must be there.
    @Test(arguments: [
        ("data: data\ndatabase:\n  main: {}\n", "2:1", "databases"),
        ("data: data\ndatabases:\n  main: { colections: [ _default ] }\n", "3:11", "collections"),
        ("data: data\nlisteners: 5\n", "2:12", "listeners"),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - { name: e, databases: [ main ], port: 70000, disable_tls: true }\n", "4:43", "70000"),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - { name: e, databases: [ other ], disable_tls: true, interface: lo }\n", "4:29", "other"),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: absent\n    interface: lo\n",
            "7:18", "absent"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: { plugin: wants, params: { nmae: x } }\n    interface: lo\n",
            "7:45", "nmae"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: { plugin: wants, params: { name: 5 } }\n    interface: lo\n",
            "7:45", "name"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    pull_filter: { plugin: wants, params: { name: x } }\n    interface: lo\n",
            "7:28", "pull_filter"
        ),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n", "4:5", "authenticator: none"),
        ("data: data\nplugins: absent\n", "2:10", "the plugins folder "), ("data: data\nfleet: { accept: [ config ] }\n", "2:20", "expected plugins, found \"config\""),
        ("data: [ unfinished\n", "2:1", ""),
    ])
    func problemsAreShownWhereTheyAre(_ text: String, _ position: String, _ words: String) async throws {
        let outcome = try await Self.check(text)
        #expect(outcome.status == 78, "\(outcome)")
        #expect(outcome.errors.contains("nightjar.yaml:\(position): "), "expected \(position): \(outcome)")
        #expect(words.isEmpty || outcome.errors.contains(words), "\(outcome)")
    }

    @Test func everyProblemIsTold() async throws {
        let outcome = try await Self.check("datta: x\ndatabases: { main: { nope: 1 } }\nlisteners: 5\n", "--json")
        #expect(outcome.status == 78)
        #expect(try outcome.json["ok"]?.asBool == false)
        #expect(try outcome.json["problems"]?.asArray?.count == 3, "\(outcome)")
    }

    @Test func aBrokenPluginIsShownWithItsLine() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good)
        try folder.write("plugins/broken.lua", "return {\n  push_filter = function(doc) return doc. end\n}\n")
        let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(outcome.status == 78)
        #expect(outcome.errors.contains("broken.lua:2:"), "\(outcome)")
    }

    @Test("mistakes in the file, in plugins, in files that it names and in uses are reported in one run, each once")
    func allAtOnce() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/broken.lua", "return {\n  push_filter = function(doc) return doc. end\n}\n")
        try folder.write("plugins/pulls.lua", "return { pull_filter = function(doc) return true end }\n")
        let text = """
            data: data
            databases: { main: { colections: [] } }
            listeners:
              - { name: edge, databases: [ nowhere ], interface: lo, port: 0, disable_tls: true, push_filter: broken }
            replicators:
              - name: hub
                database: main
                target: wsx://hub/main
                pinned_server_certificate: absent.pem
                collections: { _default: { push_filter: pulls, pull_filter: broken } }

            """
        try folder.write("nightjar.yaml", text)
        let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(outcome.status == 78)
        let lines = outcome.errors.split(separator: "\n").map(String.init)
        for words in ["colections", "nowhere", "wsx", "absent.pem", "broken.lua:2:", "has no push_filter"] {
            #expect(lines.filter { $0.contains(words) }.count == 1, "\(words): \(outcome)")
        }
        #expect(lines.count == 6, "\(outcome)")
    }

    @Test("a data folder that is a file, and a log file that is a folder, are mistakes with their places; what is not there yet is none")
    func kindsOfPlaces() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good + "\nlog:\n  file:\n    path: logs\n")
        func check() async throws -> (status: Int32?, lines: [String]) {
            let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), folder: folder.path)
            return (outcome.status, outcome.errors.split(separator: "\n").map(String.init))
        }
        let (before, warnings) = try await check()
        #expect(before == 0 && warnings.isEmpty, "\(warnings)")
        try folder.write("data", "a file\n")
        folder.makeFolder("logs")
        let (status, lines) = try await check()
        #expect(status == 78 && lines.count == 2, "\(lines)")
        #expect(lines.first?.contains("nightjar.yaml:1:7: data: \(folder.path("data")) is not a folder but a file: ") == true, "\(lines)")
        #expect(lines.last?.contains("nightjar.yaml:8:11: log.file.path: \(folder.path("logs")) is a folder, and the log needs a file") == true, "\(lines)")
    }

    @Test("a log file that is a folder is refused by run in the words of check; what the log cannot use otherwise is a warning of check")
    func logPlaces() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("logs")
        func outcome(of command: String, _ path: String) async throws -> Subprocess.Outcome {
            try folder.write("nightjar.yaml", Self.good + "\nlog:\n  file:\n    path: \(path)\n")
            return try await NightjarExecutable.run(command, "--config", folder.path("nightjar.yaml"), folder: folder.path)
        }
        for path in ["logs", "logs/", "later/"] {
            let (check, run) = (try await outcome(of: "check", path), try await outcome(of: "run", path))
            let line = try #require(check.errors.split(separator: "\n").first { $0.contains("log.file.path: ") })
            #expect(check.status == 78 && line.contains("nightjar.yaml:8:11: ") && line.contains("/nightjar.log"), "\(check)")
            #expect(run.status == 78 && run.errors.contains(line), "\(run)")
        }
        let device = try await outcome(of: "check", "/dev/null")
        #expect(device.status == 0 && device.errors.contains("log.file: /dev/null is a device, not a regular file, so that the log goes to standard error"), "\(device)")
    }

    @Test("a listener's socket for which there is no folder is told by check, as run refuses it")
    func socketPlaces() async throws {
        let folder = try TemporaryFolder()
        try folder.write("file", "x\n")
        func outcome(of command: String, _ path: String) async throws -> Subprocess.Outcome {
            try folder.write("nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: door\n    databases: [ main ]\n    endpoint: \"unix:\(path)\"\n")
            return try await NightjarExecutable.run(command, "--config", folder.path("nightjar.yaml"), folder: folder.path)
        }
        for (path, status, words) in [
            (folder.path("none/door"), 0, "warning: "), (folder.path("file/door"), 78, "not a folder"), ("/tmp/" + String(repeating: "d", count: 120), 78, "allows 107"),
        ] as [(String, Int32, String)] {
            let (check, run) = (try await outcome(of: "check", path), try await outcome(of: "run", path))
            #expect(check.status == status && check.errors.contains(words) && check.errors.contains("nightjar.yaml:6:15: listener \"door\" endpoint: "), "\(check)")
            #expect(run.status != 0, "\(run)")
        }
    }

    @Test("what in the data folder keeps run from starting is told by check, with its place")
    func dataObstacles() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good)
        folder.makeFolder("data")
        folder.makeFolder("data/agent.lock")
        try folder.write("data/main.nightjar", "a file\n")
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(check.status == 78, "\(check)")
        #expect(check.errors.contains("nightjar.yaml:1:7: data: \(folder.path("data"))/agent.lock is a folder"), "\(check)")
        #expect(check.errors.contains("database main: \(folder.path("data"))/main.nightjar is a file, and the database needs a folder there"), "\(check)")
        #expect(try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"), folder: folder.path).status != 0)
        let long = "/" + String(repeating: "d", count: 110)
        let far = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"), "--data", folder.path("x") + long)
        #expect(far.status == 78 && far.errors.contains("the path of the admin socket, ") && far.errors.contains("use a shorter data folder"), "\(far)")
    }

    @Test("a data folder that nobody can make is a mistake with its place, and one that this user cannot make a warning; run says the path once, and what to do")
    func impossibleData() async throws {
        let folder = try TemporaryFolder()
        try folder.write("file", "x\n")
        for data in ["/proc/x", "/proc/x/y", folder.path("file/below")] {
            try folder.write("nightjar.yaml", Self.good.replacing("data: data", with: "data: \(data)"))
            let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
            #expect(check.status == 78 && check.errors.contains("nightjar.yaml:1:7: data: \(data) cannot be made: "), "\(check)")
            let run = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"))
            #expect(run.status != 0 && run.errors.contains("correct data or --data"), "\(run)")
            #expect(run.errors.split(separator: "\n").allSatisfy { $0.ranges(of: "\(data)").count <= 1 }, "\(run)")
        }
    }

    @Test("below a folder that is not writable", .enabled(if: geteuid() == 0 && TemporaryFolder.canRun("/usr/bin/setpriv"), "takes root's rights away"))
    func dataOfOthers() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("closed")
        chmod(folder.path("closed"), 0o555)
        try folder.write("nightjar.yaml", Self.good.replacing("data: data", with: "data: closed/data"))
        func nightjar(_ command: String) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                "/usr/bin/setpriv",
                ["--bounding-set", "-dac_override", "--inh-caps", "-dac_override", try NightjarExecutable.path(), command, "--config", "nightjar.yaml"],
                folder: folder.path)
        }
        let check = try await nightjar("check")
        #expect(check.status == 0, "\(check)")
        #expect(check.errors.contains("warning: nightjar.yaml:1:7: data: \(folder.path("closed/data")) cannot be made by this user: "), "\(check)")
        let run = try await nightjar("run")
        #expect(run.status != 0 && run.errors.contains("Permission denied; make it for the agent's user"), "\(run)")
        // Whoever asks gets the same advice.
        let advice = "make it for the agent's user (as root: install -d -m 700 -o USER \(folder.path("closed/data"))), or correct data or --data"
        let doctor = try await nightjar("doctor")
        #expect(doctor.status == 1 && doctor.output.contains("mend: \(advice)") && check.errors.contains(advice) && run.errors.contains(advice), "\(doctor)")
    }

    @Test("with a file that is no YAML, every command that can do without it says how", arguments: [
        ["status"], ["doc", "list", "main"], ["doctor", "--quick", "--offline"], ["conflicts", "list", "main"], ["fleet", "status"], ["identity", "list"], ["support-bundle"],
    ])
    func brokenFile(_ command: [String]) async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", "data: data\ndatabases: { main: {}\nlisteners: [\n")
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), command + ["--config", "nightjar.yaml"], folder: folder.path)
        #expect((outcome.output + outcome.errors).contains("use --data \(folder.path("data")) instead of --config"), "\(outcome)")
    }

    @Test("a quota that is less than a document may have is a warning, which says what to set")
    func smallQuota() async throws {
        let folder = try TemporaryFolder()
        func check(_ database: String) async throws -> Subprocess.Outcome {
            try folder.write("nightjar.yaml", "data: data\ndatabases:\n  main: { \(database) }\n")
            return try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", "nightjar.yaml"], folder: folder.path)
        }
        let small = try await check("quota: 2MiB, max_document_bytes: 4MiB")
        #expect(small.status == 0 && small.errors.contains("warning: nightjar.yaml:3:3: database \"main\": its quota (2097152) is less than a document may have"), "\(small)")
        let enough = try await check("quota: 2MiB, max_document_bytes: 1MiB")
        #expect(enough.status == 0 && !enough.errors.contains("quota"), "\(enough)")
    }

    @Test func aFileThatIsNotThereIsStatus78() async throws {
        for command in ["check", "run", "status"] {
            let outcome = try await NightjarExecutable.run(command, "--config", "/nowhere/nightjar.yaml")
            #expect(outcome.status == 78, "\(outcome)")
            #expect(outcome.errors.contains("/nowhere/nightjar.yaml"))
        }
    }

    @Test func runRefusesWhatCheckRefuses() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good + "\nbogus: 1\n")
        let outcome = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(outcome.status == 78)
        #expect(outcome.errors.contains("nightjar.yaml:6:1: "), "\(outcome)")
        #expect(outcome.output.isEmpty)
        #expect(!folder.exists("data"))
    }

    /// Files with certificates and keys are looked at before anything starts, and each wrong one is named with its place.
    @Test func wrongCertificatesAndKeysAreNamed() async throws {
        let folder = try TemporaryFolder()
        func openssl(_ arguments: String...) async throws {
            let outcome = try await Subprocess.run("/usr/bin/openssl", arguments, folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
        }
        let request = ["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "1", "-subj", "/CN=a"]
        for name in ["good", "other"] {
            let outcome = try await Subprocess.run(
                "/usr/bin/openssl", request + ["-keyout", "\(name).key", "-out", "\(name).pem"], folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
        }
        try await openssl("pkey", "-in", "good.key", "-aes256", "-passout", "pass:hunter2", "-out", "encrypted.key")
        try folder.write("garbage.pem", "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n")
        try folder.copy(folder.path("good.key"), to: "loose.key")
        for name in ["good", "other", "encrypted"] { chmod(folder.path("\(name).key"), 0o600) }
        chmod(folder.path("loose.key"), 0o644)
        mkfifo(folder.path("pipe.pem"), 0o600)
        func identity(_ files: String) -> String { "    identity: { \(files) }\n" }
        let listeners = [
            identity("certificate: good.pem, key: other.key"), identity("certificate: good.pem, key: encrypted.key"),
            identity("certificate: good.pem, key: encrypted.key, passphrase: wrong-secret"), identity("certificate: good.pem, key: loose.key"),
            identity("certificate: good.pem, key: absent.key"), identity("certificate: garbage.pem, key: good.key"),
            identity("certificate: pipe.pem, key: good.key"), "    identity: nobody\n", "    identity: \"pkcs11:object=gateway\"\n",
            identity("certificate: good.pem, key: good.key") + "    client_certificates: require\n    roots: [ good.pem, pipe.pem ]\n",
            identity("certificate: good.pem, key: encrypted.key, passphrase: hunter2"),
        ].enumerated().map { "  - name: l\($0.offset)\n    databases: [ main ]\n    interface: lo\n    port: 0\n\($0.element)" }
        let text = "data: data\ndatabases: { main: {} }\nlisteners:\n" + listeners.joined()
            + "replicators:\n  - name: hub\n    database: main\n    target: wss://hub/main\n    pinned_server_certificate: [ good.pem, garbage.pem ]\n    roots: [ absent.pem ]\n"
        try folder.write("nightjar.yaml", text)
        for command in ["check", "run"] {
            let outcome = try await NightjarExecutable.run(command, "--config", folder.path("nightjar.yaml"), folder: folder.path)
            #expect(outcome.status == 78, "\(outcome)")
            let problems = outcome.errors.split(separator: "\n").map(String.init).filter { !$0.contains("not available in this version") }
            for (place, path, words) in [
                (8, "other.key", "is not that of the certificate CN=a"), (13, "encrypted.key", "encrypted and there is no passphrase"),
                (18, "encrypted.key", "cannot be decrypted"), (23, "loose.key", "chmod 600"), (28, "absent.key", "no such file"),
                (33, "garbage.pem", "is not valid PEM"), (38, "pipe.pem", "is a pipe"), (43, "data/identities/nobody.pem", "there is no identity \"nobody\""),
                (48, "pkcs11:object=gateway", "openssl.cnf"), (55, "pipe.pem", "is a pipe"), (65, "garbage.pem", "is not valid PEM"), (66, "absent.pem", "no such file"),
            ] {
                #expect(
                    problems.contains { $0.contains("nightjar.yaml:\(place):") && $0.contains(path) && $0.contains(words) },
                    "\(place) \(path) \(words) in \(outcome)")
            }
            #expect(problems.count == 12, "\(problems.joined(separator: "\n"))")
            #expect(!outcome.errors.contains("wrong-secret") && !outcome.errors.contains("hunter2"))
            #expect(!folder.exists("data"))
        }
    }

    @Test func theSchemaIsJSON() async throws {
        let outcome = try await NightjarExecutable.run("config", "schema")
        #expect(outcome.status == 0)
        #expect(try outcome.json["definitions"]?.asObject != nil)
    }
}
