@testable import Agent
import Logging
import Testing

/// Since when something needs attention.
@Suite struct AttentionTimesTests {
    private static func looked(_ times: AttentionTimes, _ subjects: [String], at now: Int64) -> [Int64?] {
        var list = subjects.map { Attention(.pluginRefused, $0, "no", remedy: "") }
        times.complete(&list, now: now, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        return list.map(\.since)
    }

    @Test("what appeared before anybody looked keeps the time when it appeared until it is over")
    func signs() {
        let times = AttentionTimes()
        times.sign(of: .pluginRefused, "plugin a", at: 100)
        times.sign(of: .pluginRefused, "plugin a", at: 110)
        #expect(Self.looked(times, ["plugin a", "plugin b"], at: 120) == [100, 120])
        times.sign(of: .pluginRefused, "plugin a", at: 130)
        #expect(Self.looked(times, ["plugin a", "plugin b"], at: 140) == [100, 120])
        #expect(Self.looked(times, [], at: 150).isEmpty)
        // An old sign says nothing about what starts again.
        #expect(Self.looked(times, ["plugin a"], at: 160) == [160])
    }
}
