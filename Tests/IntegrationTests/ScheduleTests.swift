import Documents
import Glibc
import TestSupport
import Testing

@Suite("Replicators with a schedule") struct ScheduleTests {
    /// `HH:00`, so many hours from now.
    private func hour(in hours: Int) -> String {
        var now = time(nil)
        var parts = tm()
        localtime_r(&now, &parts)
        let hour = (Int(parts.tm_hour) + hours) % 24
        return "\(hour < 10 ? "0" : "")\(hour):00"
    }

    @Test("make no connection at other times, say until when, do not affect health, and resume when an operator or a reload asks for it")
    func outside() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        let later = "schedule: [ \(hour(in: 2))-\(hour(in: 3)) ]"
        let edge = try await AgentProcess.start(Configuration.edge(to: port, replicator: later))
        try await edge.put("main", "a", "{}")
        try await edge.waits("suspended") { $0["suspended"]?.asBool == true && $0["activity"]?.asString == "offline" }
        let until = try #require(try await edge.replicator("hub")["resumes_at"]?.asString)
        let status = try await edge.command("status")
        #expect(status.output.contains("hub: suspended by its schedule until \(until), or now: nightjar replicator hub resume"), "\(status)")
        #expect(try await edge.admin.get("/health").status == 200)
        let why = try await edge.command("doc", "why", "main", "a")
        #expect(why.output.contains("suspended by its schedule until \(until)"), "\(why)")
        #expect(try await !hub.has("a"))

        #expect(try await edge.command("replicator", "hub", "resume").status == 0)
        try await eventually("it arrives") { try await hub.has("a") }
        #expect(try await edge.replicator("hub")["resumes_at"]?.isNull == true)

        // A reload with a time that is now.
        let present = "schedule: [ \(later.dropFirst(12).dropLast(2)), \(hour(in: 23))-\(hour(in: 1)) ]"
        try edge.folder.write("nightjar.yaml", Configuration.edge(to: port, replicator: present))
        #expect(try await edge.command("reload").status == 0)
        try await edge.put("main", "b", "{}")
        try await eventually("that arrives too") { try await hub.has("b") }
        #expect(try await edge.replicator("hub")["suspended"]?.asBool == false)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}
