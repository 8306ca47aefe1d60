import AgentConfiguration
import Testing

@Suite("Times of the day") struct DailyWindowTests {
    @Test("hold from their first minute up to the last, over midnight too", arguments: [
        ("22:00-06:00", [22 * 60, 23 * 60 + 59, 0, 5 * 60 + 59], [21 * 60 + 59, 6 * 60, 12 * 60]),
        ("12:00-12:30", [12 * 60, 12 * 60 + 29], [11 * 60 + 59, 12 * 60 + 30, 0]),
        ("00:00-24:00", [0, 1_439], [1_440]), ("23:00-00:00", [23 * 60, 1_439], [0, 22 * 60]),
    ])
    func hold(_ text: String, _ inside: [Int], _ outside: [Int]) throws {
        let window = try #require(DailyWindow(text))
        for minute in inside { #expect(window.holds(minute), "\(minute)") }
        for minute in outside { #expect(!window.holds(minute), "\(minute)") }
    }

    @Test("are refused in any other form", arguments: ["", "22:00", "22:00-", "22-06", "25:00-01:00", "22:60-23:00", "24:00-01:00", "10:00-10:00", "1:00-2:00", "a0:00-11:00", "00:00-24:01"])
    func refused(_ text: String) { #expect(DailyWindow(text) == nil) }

    @Test("are listed for a continuous replicator")
    func setting() throws {
        func text(_ schedule: String, continuous: Bool = true) -> String {
            "databases: { main: {} }\nreplicators:\n  - { name: hub, database: main, target: \"wss://hub/main\", continuous: \(continuous), schedule: \(schedule) }\n"
        }
        let replicator = try #require(try settings(text("[ 22:00-06:00, 12:00-12:30 ]")).replicators.first)
        #expect(replicator.isScheduled(at: 0) && replicator.isScheduled(at: 730) && !replicator.isScheduled(at: 800))
        #expect(problems(text("[ 6-7 ]")).map(\.message).contains { $0.contains("expected a time of the day as HH:MM-HH:MM") })
        #expect(problems(text("[ 06:00-07:00 ]", continuous: false)).map(\.message).contains { $0.contains("set continuous: true") })
        #expect(problems(text("[]")).count == 1)
    }
}
