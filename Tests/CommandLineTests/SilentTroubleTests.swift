import Documents
import Glibc
import TestSupport
import Testing

/// What went wrong without a word: logins that nobody can use, and a doctor that looked with other eyes than the agent's.
@Suite("Silent trouble")
struct SilentTroubleTests {
    private static let configuration = """
        data: data
        plugins: plugins
        databases: { main: {} }
        listeners: [ { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true, authenticator: { plugin: password-file, params: { file: users.txt } } } ]

        """

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        try folder.write("nightjar.yaml", Self.configuration)
    }

    private func nightjar(_ arguments: String...) async throws -> Subprocess.Outcome {
        try await Subprocess.run(try NightjarExecutable.path(), arguments + ["--config", "nightjar.yaml"], folder: folder.path)
    }

    @Test("check and doctor name a users file that lets nobody in, and each invalid line")
    func users() async throws {
        let missing = try await nightjar("check")
        #expect(missing.status == 78 && missing.errors.contains("looked in") && missing.errors.contains("nightjar user add NAME makes it"), "\(missing)")
        try folder.write("users.txt", "# nobody yet\n\n")
        let empty = try await nightjar("check")
        #expect(empty.status == 0)
        #expect(empty.errors.contains("users.txt has no user, so that nobody can log in: nightjar user add NAME"), "\(empty)")
        let hash = try await NightjarExecutable.run("password", folder: folder.path, input: .text("secret\n")).output
        try folder.write("users.txt", "ada:\(hash)ben=\(hash)eve:not-a-hash\n")
        let wrong = try await nightjar("check")
        #expect(wrong.status == 0)
        #expect(wrong.errors.contains("users.txt: line 2: expected NAME:HASH; nobody can log in with this line"), "\(wrong)")
        #expect(wrong.errors.contains("users.txt: line 3, user eve: "), "\(wrong)")
        #expect(!wrong.errors.contains("line 1"), "\(wrong)")
        let doctor = try await nightjar("doctor", "--quick", "--offline")
        #expect(doctor.output.contains("users.txt: line 2: expected NAME:HASH"), "\(doctor)")
        #expect(doctor.status == 0, "\(doctor)")
        chmod(try folder.write("users.txt", "ada:\(hash)"), 0o600)
        let right = try await nightjar("check")
        #expect(right.status == 0 && right.errors.isEmpty, "\(right)")
    }

    @Test("doctor takes the variables of the agent that runs, not those of the shell")
    func variables() async throws {
        try folder.write("users.txt", "")
        let text = Self.configuration + """
            replicators: [ { name: hub, database: main, target: "ws://127.0.0.1:9/main", authenticator: { username: a, password: "${ONLY_THE_AGENT_HAS_IT}" } } ]

            """
        try folder.write("nightjar.yaml", text)
        let before = try await nightjar("doctor", "--quick", "--offline")
        #expect(before.status == 1)
        #expect(before.output.contains("the environment variable ONLY_THE_AGENT_HAS_IT is not set"), "\(before)")
        let agent = try await AgentProcess.start(text, in: folder, environment: ["ONLY_THE_AGENT_HAS_IT": "x"])
        let during = try await nightjar("doctor", "--quick", "--offline")
        #expect(!during.output.contains("ONLY_THE_AGENT_HAS_IT"), "\(during)")
        #expect(try await agent.stop().status == 0)
        // What its lock file still says is of a process that has ended.
        let after = try await nightjar("doctor", "--quick", "--offline")
        #expect(after.output.contains("the environment variable ONLY_THE_AGENT_HAS_IT is not set"), "\(after)")
    }
}
