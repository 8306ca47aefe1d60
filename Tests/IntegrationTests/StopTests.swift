import Encodings
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite("A stop always ends", .timeLimit(.minutes(10)))
struct StopTests {
    @Test("signals that come before the agent is ready neither kill it nor are lost")
    func early() async throws {
        // The configuration comes through a pipe, so the agent waits for it.
        let folder = try TemporaryFolder()
        try #require(mkfifo(folder.path("nightjar.yaml"), 0o600) == 0)
        let agent = try Subprocess(try NightjarExecutable.path(), ["run", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        // Returns when the agent reads.
        let pipe = try await offThread { open(folder.path("nightjar.yaml"), O_WRONLY) }
        try #require(pipe >= 0)
        agent.send(SIGHUP)
        agent.send(SIGTERM)
        let text = Array(Configuration.hub().utf8)
        #expect(write(pipe, text, text.count) == text.count)
        close(pipe)
        #expect(try await agent.wait().status == 0)
    }

    @Test("selectors that take long keep no other reader waiting, and no stop", arguments: ["_find", "_changes?filter=_selector"])
    func selectors(path: String) async throws {
        let agent = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"))
        let couch = try CouchHTTP(agent)
        let text = String(repeating: "x", count: 4_000)
        let documents = (0..<300).map { "{\"_id\":\"d\($0)\",\"a\":\"\(text)\"}" }.joined(separator: ",")
        try await couch.ok("POST", "/main/_bulk_docs", "{\"docs\":[\(documents)]}", status: 201)
        // All of its states are alive at each character: each question takes all the steps that it may.
        let question = "{\"selector\":{\"a\":{\"$regex\":\"(a?){100}y\"}}}"
        let answered = Answered()
        let meter = try Meter(agent)
        let asking = (1...8).map { _ in
            Task { if let answer = try? await couch.send("POST", "/main/\(path)", question), answer.text.contains("{\"") { answered.add(answer.status) } }
        }
        try await eventually("they are at work") { try meter.cost().seconds > 1 }
        for _ in 1...10 { #expect(try await couch.problem("GET", "/main/none") == "404 not_found") }
        // Waiting for one of them would have taken longer.
        #expect(answered.count == 0)
        #expect(try await agent.stop().status == 0)
        for task in asking { await task.value }
        // Nobody is told to log in again because the agent stops.
        #expect(answered.statuses.allSatisfy { $0 == 503 }, "\(answered.statuses)")
    }

    @Test("answers that are late find an event loop: logins under way, and more of them waiting, at a stop")
    func logins() async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        let made = try await Subprocess.run(try NightjarExecutable.path(), ["password"], folder: folder.path, input: .text("secret\n"))
        let hash = String(made.output.prefix { $0 != "\n" })
        try folder.write("users.txt", (0..<60).map { "user-\($0):\(hash)\n" }.joined())
        let agent = try await AgentProcess.start(
            Configuration.hub(listener: "authenticator: { plugin: password-file, params: { file: users.txt } }", plugins: true), in: folder)
        let probe = HTTPProbe.tcp(port: try agent.port("edge"))
        var held: [HeldConnection] = []
        for number in 0..<60 {
            let login = Base64.encode(Array("user-\(number):secret".utf8))
            let request = "GET /main/_blipsync HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Protocol: BLIP_3+CBMobile_3\r\nAuthorization: Basic \(login)\r\n\r\n"
            held.append(try await probe.begin(Array(request.utf8)))
        }
        let outcome = try await agent.stop()
        // One that took longer than it may would have ended with another status.
        #expect(outcome.status == 0 && !outcome.errors.contains("shut down"), "\(outcome)")
        withExtendedLifetime(held) {}
    }

    private final class Answered: Sendable {
        private let found = Mutex<[Int]>([])
        var count: Int { statuses.count }
        var statuses: [Int] { found.withLock { $0 } }
        func add(_ status: Int) { found.withLock { $0.append(status) } }
    }

    @Test("an agent that cannot stop ends itself with status 75")
    func lastResort() async throws {
        let folder = try TemporaryFolder()
        let configuration = try folder.write("nightjar.yaml", Configuration.hub())
        // Nobody reads its log, and the pipe is full: its first line waits for ever.
        let script = """
            mkfifo log && exec 3<>log && head -c 65536 /dev/zero >&3 && exec "$0" run --config "$1" 2>&3
            """
        let agent = try Subprocess("/bin/sh", ["-c", script, try NightjarExecutable.path(), configuration], folder: folder.path)
        // It has begun with its work when its folder is there.
        try await eventually("the agent works") { access(folder.path("data"), F_OK) == 0 }
        agent.send(SIGTERM)
        #expect(try await agent.wait().status == 75)
    }
}
