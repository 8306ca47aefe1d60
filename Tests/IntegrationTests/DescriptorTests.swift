import Documents
import TestSupport
import Testing

@Suite("File descriptors are shared out")
struct DescriptorTests {
    @Test("peers cannot take the descriptors that the store and the admin API need")
    func reserve() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(), descriptors: "-n 160")
        let status = try await hub.status()
        #expect(status["descriptors"]?["limit"]?.asInt64 == 160, "\(status["descriptors"]?.text ?? "")")
        let most = try await hub.listener("edge")["max_connections"]?.asInt64 ?? 0
        #expect((1..<160).contains(most), "\(most)")
        let probe = HTTPProbe.tcp(port: try hub.port("edge"))
        var held: [HeldConnection] = []
        for _ in 0..<300 { held.append(try await probe.begin(Array("GET /main".utf8))) }
        // Every one of these opens sockets and files.
        try await hub.save("in-between", "{}")
        try await hub.load("more", 200)
        #expect(try await hub.admin.get("/health").status == 200)
        let open = try await hub.status()["descriptors"]?["open"]?.asInt64 ?? 0
        #expect(open < 160, "\(open)")
        let bystander = try await Bystander(hub)
        try await bystander.leave()
        #expect(!held.isEmpty)
        let end = try await hub.stop()
        #expect(end.status == 0 && !end.errors.contains("Too many open files"), "\(end)")
        #expect(end.errors.contains("RLIMIT_NOFILE"))
    }

    @Test("the limit is raised as far as the system allows")
    func raised() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(), descriptors: "-S -n 100 && ulimit -H -n 2000")
        #expect(try await hub.status()["descriptors"]?["limit"]?.asInt64 == 2000)
        #expect(try await hub.listener("edge")["max_connections"]?.asInt64 == 1000)
        #expect(try await hub.stop().status == 0)
    }
}
