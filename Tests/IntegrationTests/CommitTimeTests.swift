import TestSupport
import Testing

@Suite("How long the disk takes") struct CommitTimeTests {
    @Test("each commit that writes is counted, with its time")
    func commits() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        func value(_ suffix: String, _ more: String = "") async throws -> Double? {
            let start = "nightjar_database_commit_duration_seconds_\(suffix){database=\"main\"\(more)} "
            return try await hub.metrics().split(separator: "\n").first { $0.hasPrefix(start) }.flatMap { Double($0.dropFirst(start.count)) }
        }
        let before = try #require(try await value("count"))
        for number in 0..<3 { try await hub.put("main", "d\(number)", "{}") }
        let after = try #require(try await value("count"))
        #expect(after >= before + 3)
        #expect(try await value("sum").map { $0 > 0 } == true)
        #expect(try await value("bucket", ",le=\"+Inf\"") ?? 0 >= after)
        #expect(try await hub.stop().status == 0)
    }
}
