import Documents
import TestSupport
import Testing

@Suite("Log lines of one cause are folded")
struct LogFoldingTests {
    @Test("hundreds of connections that a limit refuses are a few lines, with their number")
    func connections() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(listener: "max_connections_per_address: 2"))
        let probe = HTTPProbe.tcp(port: try hub.port("edge"))
        var held: [HeldConnection] = []
        for _ in 0..<300 { held.append(try await probe.begin(Array("GET".utf8))) }
        // It comes behind them, so that they have all been seen. The limit holds for it as well: its answer may be lost with the connection.
        _ = try? await probe.request("GET", "/main")
        held = []
        let end = try await hub.stop()
        let lines = end.errors.split(separator: "\n").filter { $0.contains("max_connections_per_address") }
        #expect((1...40).contains(lines.count), "\(lines.count)")
        #expect(lines.contains { $0.contains("more lines like this one were not logged") }, "\(lines.last ?? "")")
    }

    @Test("each line of a log of JSON is JSON, the ready line as well, and numbers are numbers")
    func numbers() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(more: "log: { format: json }\n"))
        let peer = try await Peer.connect(hub)
        try await peer.push("one")
        try await peer.close()
        let ready = try JSONValue(parsing: Array(hub.ready.utf8))
        #expect(ready["level"]?.asString == "info" && ready["message"]?.asString?.hasPrefix("ready edge=127.0.0.1:") == true, "\(hub.ready)")
        let line = try await hub.process.line(containing: "peer gone", in: .errors)
        let fields = try JSONValue(parsing: Array(line.utf8))
        #expect(fields["pushed_by_peer"] == 1 && fields["pulled_by_peer"] == 0 && fields["listener"]?.asString == "edge", "\(line)")
        #expect(try await hub.stop().status == 0)
    }

    @Test("what a plugin logs about a document stays on its line, keys as well")
    func forgery() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/loud.lua", "return { pull_filter = function(doc) nightjar.log.warn('odd reading', doc.tags) return true end }")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    pull_filter: loud", plugins: true), in: folder)
        try await CouchHTTP(hub).ok("PUT", "/main/a", #"{"tags":{"x\n2026-01-01T00:00:00Z error forged: \u001b[31m":"v","a=b c":"w"}}"#, status: 201)
        let end = try await hub.stop()
        #expect(end.status == 0 && end.errors.contains("odd reading"), "\(end)")
        #expect(!end.errors.contains("\n2026-01-01") && !end.errors.contains("\u{1b}") && end.errors.contains("\"a=b c\"=w"), "\(end.errors)")
    }

    @Test("one bad filter")
    func filter() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        // Another message for each document.
        try folder.write("plugins/bad.lua", "return { push_filter = function(doc) error('no ' .. doc._id) end }")
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), collection: "{ push_filter: bad }", plugins: true), in: folder)
        for batch in 0..<10 {
            try await edge.load("batch\(batch)", 200)
            try await edge.waits("held", is: Int64(200 * (batch + 1)))
        }
        let end = try await edge.stop()
        let lines = end.errors.split(separator: "\n")
        #expect(lines.count < 150, "\(lines.count)")
        #expect(lines.contains { $0.contains("more lines like this one were not logged") }, "\(end.errors.suffix(3000))")
        #expect(try await hub.stop().status == 0)
    }
}
