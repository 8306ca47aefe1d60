import Documents
import Glibc
import TestSupport
import Testing

/// Clients of CouchDB's API that read what they ask for, alongside others that do not.
@Suite(
    "Honest readers", .serialized,
    .disabled(if: getenv("NIGHTJAR_SANITIZER") != nil, "instrumented code takes too long for answers of this size"))
struct HonestReaders {
    @Test("documents can be read while 40 connections ask for a lot and read nothing; these are cut for those that wait, and health says so")
    func besideUnreadAnswers() async throws {
        let hub = try await AgentProcess.start(Attack.hub() + "limits: { memory: 16MiB }\n")
        let stranger = try Door.listener.probe(hub)
        let client = HTTPProbe.tcp(port: try hub.port("edge"), from: "127.0.0.2")
        for (id, bytes) in [("small", 100), ("large", 100_000)] {
            let saved = try await hub.put("main", id, "{\"text\":\"\(String(repeating: "x", count: bytes))\"}")
            #expect(saved.status < 300, "\(saved)")
        }
        let film = [UInt8](repeating: 0x78, count: 1 << 20)
        let attached = try await stranger.request("PUT", "/main/film/reel", headers: [("Content-Type", "video/mp4")], body: film)
        #expect(attached.status == 201, "\(attached)")

        // Each of these requests takes a megabyte once it is parsed, and together they want more than all of the memory.
        let asked = Array(repeating: "{\"id\":\"film\"}", count: 4_000).joined(separator: ",")
        let body = "{\"attachments\":true,\"docs\":[\(asked)]}"
        let head = "POST /main/_bulk_get HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        var unread: [Outflow] = []
        for _ in 0..<40 { unread.append(try await stranger.pour(Array((head + body).utf8))) }

        for id in ["small", "small", "large", "small", "large"] {
            let answer = try await client.get("/main/\(id)")
            #expect(answer.status == 200 && answer.text.contains("xxx"), "\(id): \(answer)")
        }
        let told: JSONValue = try await eventually("health says that answers were cut") {
            try await hub.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "answers_unread" && $0["text"]?.asString?.contains("cut") == true }
        }
        #expect(told["gravity"] == "attention" && told["subject"] == "listener edge" && told["text"]?.asString?.contains("127.0.0.1") == true, "\(told.text)")
        let metrics = try await hub.admin.get("/metrics").text
        #expect(metrics.contains("nightjar_listener_answers_cut_total{listener=\"edge\"}"), "\(metrics.suffix(2_000))")
        #expect(!metrics.contains("nightjar_listener_answers_cut_total{listener=\"edge\"} 0\n"))
        #expect(try await hub.stop().status == 0)
        withExtendedLifetime(unread) {}
    }
}
