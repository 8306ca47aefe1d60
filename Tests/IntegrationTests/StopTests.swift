import Glibc
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
