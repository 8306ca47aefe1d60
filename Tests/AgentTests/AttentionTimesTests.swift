@testable import Agent
import Logging
import Synchronization
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

    @Test("every kind has a line in the log when it begins and one when it is over, and none in between")
    func lines() {
        let lines = Lines()
        let (times, logger) = (AttentionTimes(), Logger(label: "test") { _ in lines })
        for kind in AttentionKind.allCases {
            for now: Int64 in [1, 2] {
                var list = [Attention(kind, "subject", "it is \(now)", remedy: "mend it")]
                times.complete(&list, now: now, logger: logger)
            }
            var none: [Attention] = []
            times.complete(&none, now: 3, logger: logger)
            let kindOf = "[kind: \(kind.rawValue)]"
            #expect(lines.take() == ["warning needs attention: subject: it is 1; mend it \(kindOf)", "notice subject: \(kind.rawValue) is over \(kindOf)"])
        }
    }
}

/// Keeps what is logged.
private struct Lines: LogHandler {
    private final class Kept: Sendable {
        let lines = Mutex<[String]>([])
    }

    private let kept = Kept()
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let shown = (event.metadata ?? [:]).map { "[\($0.key): \($0.value)]" }.joined()
        kept.lines.withLock { $0.append("\(event.level) \(event.message) \(shown)") }
    }

    func take() -> [String] {
        kept.lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}
