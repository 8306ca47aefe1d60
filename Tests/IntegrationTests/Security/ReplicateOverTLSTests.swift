import Documents
import TestSupport
import Testing

/// `nightjar replicate` against a TLS listener, as README.md shows it, and the certificate that outlives the agent.
@Suite("One-shot replications over TLS")
struct ReplicateOverTLSTests {
    @Test("--pinned and --self-signed reach the hub, anything else is refused with what to do; a restart keeps the certificate")
    func replicate() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.write("plugins/users.lua", "return { authenticate_password = function(name, password) return name == \"ada\" and password == \"secret\" end }")
        let configuration = Configuration.secureHub([("edge", "authenticator: users")], plugins: true)
        let hub = try await AgentProcess.start(configuration, in: folder)
        try await hub.save("a", "{\"n\":1}")
        let target = try hub.target("edge")
        let pem = try folder.write("hub.pem", try await hub.command("identity", "show", "anonymous", "--pem").output)
        let json = try JSONValue(parsing: Array(try await hub.command("identity", "show", "anonymous", "--json").output.utf8))
        let pin = try #require(json["pin"]?.asString)
        #expect(try await hub.pin("edge") == pin)

        func replicate(_ database: String, _ options: [String], password: String = "secret") async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), ["replicate", target, "\(database).nightjar", "--user", "ada"] + options,
                environment: ["NIGHTJAR_PASSWORD": password], folder: folder.path)
        }
        for (database, options) in [("file", ["--pinned", pem]), ("key", ["--pinned", pin]), ("self", ["--self-signed"])] {
            let outcome = try await replicate(database, options)
            #expect(outcome.status == 0, "\(options): \(outcome)")
        }
        for (options, words) in [
            ([], "pin it"), (["--pinned", certificates.path("alone.pem")], "is not the pinned one"),
            (["--pinned", "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="], "is not the pinned one"),
        ] {
            let outcome = try await replicate("no", options)
            #expect(outcome.status == 1 && outcome.errors.contains(words), "\(options): \(outcome)")
        }
        let wrong = try await replicate("no", ["--self-signed"], password: "hunter2")
        #expect(wrong.status == 1 && wrong.errors.contains("401") && !wrong.errors.contains("hunter2"), "\(wrong)")

        #expect(try await hub.stop().status == 0)
        let again = try await AgentProcess.start(configuration, in: folder)
        #expect(try await again.pin("edge") == pin)
        #expect(try await again.stop().status == 0)
    }
}
