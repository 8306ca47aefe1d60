import Environment
import Interfaces
import Synchronization
import Testing

@testable import Agent

/// How long sessions of a listener's peers live.
@Suite struct PeerSessionTests {
    /// A clock that moves by hand.
    private final class JumpingClock: TimeSource {
        private let seconds = Mutex<UInt64>(1_000)

        func monotonicNanoseconds() -> UInt64 { seconds.withLock { $0 } * 1_000_000_000 }
        func wallSeconds() -> Int64 { 1_700_000_000 }
        func sleep(nanoseconds: UInt64) async throws {}
        func jump(_ more: UInt64) { seconds.withLock { $0 += more } }
    }

    private let clock = JumpingClock()
    private let sessions: PeerSessions

    init() { sessions = PeerSessions(Environment(time: clock, random: SystemRandom())) }

    private func open(_ name: String, database: String = "main") -> String {
        let id = sessions.open(database, Principal(name: name), .nothing, generation: 1)
        return "\(database.isEmpty ? PeerSessions.serverCookie : PeerSessions.cookie)=\(id)"
    }

    private func owner(_ cookie: String, _ database: String = "main") -> String? { sessions.find(cookie, database)?.session.principal.name }

    @Test("a session that nobody uses ends after its time, and not before", arguments: ["main", ""])
    func expiry(_ database: String) {
        let cookie = open("ada", database: database)
        clock.jump(PeerSessions.Limits.seconds - 1)
        #expect(owner(cookie, database) == "ada")
        #expect(sessions.all.map(\.secondsLeft) == [1])
        clock.jump(1)
        #expect(owner(cookie, database) == nil)
        #expect(sessions.all.isEmpty && sessions.end(of: "ada") == 0)
    }

    @Test("each use extends it, and its end affects no other session")
    func use() throws {
        let (used, unused) = (open("ada"), open("ben"))
        clock.jump(PeerSessions.Limits.seconds / 2)
        sessions.use(try #require(sessions.find(used, "main")).key, generation: 2)
        clock.jump(PeerSessions.Limits.seconds - 1)
        #expect(owner(used) == "ada" && owner(unused) == nil)
        #expect(sessions.find(used, "main")?.session.generation == 2)
        // What has ended is dropped when another is opened.
        #expect(sessions.count == 2)
        _ = open("eve")
        #expect(sessions.count == 2)
        clock.jump(1)
        #expect(owner(used) == nil)
        #expect(sessions.all.map(\.session.principal.name) == ["eve"])
    }

    @Test("a user's further session ends the least recently used one, not one in use, and that is reported")
    func room() throws {
        let told = Mutex<[String]>([])
        let sessions = PeerSessions(Environment(time: clock, random: SystemRandom())) { session, limit in
            told.withLock { $0.append("\(session.principal.name ?? "") \(limit.name) \(limit.value)") }
        }
        func open(_ name: String) -> String { "\(PeerSessions.cookie)=\(sessions.open("main", Principal(name: name), .nothing, generation: 1))" }
        func use(_ cookie: String) throws { sessions.use(try #require(sessions.find(cookie, "main")).key, generation: 1) }
        let (inUse, unused, another) = (open("bob"), open("bob"), open("eve"))
        for _ in 2..<PeerSessions.Limits.perUser { _ = open("bob") }
        try use(inUse)
        #expect(told.withLock { $0 }.isEmpty)
        for _ in 0..<PeerSessions.Limits.perUser * 2 {
            _ = open("bob")
            try use(inUse)
        }
        #expect(sessions.find(inUse, "main") != nil && sessions.find(another, "main") != nil && sessions.find(unused, "main") == nil)
        #expect(told.withLock { $0 } == Array(repeating: "bob sessions_per_user \(PeerSessions.Limits.perUser)", count: 2 * PeerSessions.Limits.perUser))
        #expect(sessions.count == PeerSessions.Limits.perUser + 1)
    }

    @Test("its client is given the cookie again after each tenth of its time, as long as the session exists", arguments: ["main", ""])
    func renewal(_ database: String) throws {
        let cookie = open("ada", database: database)
        let id = String(try #require(cookie.split(separator: "=").last))
        let tenth = PeerSessions.Limits.seconds / 10
        clock.jump(tenth - 1)
        #expect(sessions.due(cookie, database) == nil)
        clock.jump(1)
        #expect(sessions.due(cookie, "other") == nil && sessions.due("a=b", database) == nil)
        #expect(sessions.due("a=b; \(cookie)", database) == id)
        #expect(sessions.due(cookie, database) == nil)
        clock.jump(tenth)
        #expect(sessions.due(cookie, database) == id)
        sessions.end(try #require(sessions.find(cookie, database)).key)
        clock.jump(tenth)
        #expect(sessions.due(cookie, database) == nil)
    }
}
