import AgentConfiguration
import DocumentStore
import Environment
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Agent

/// The time that tokens are judged by on machines whose clock is wrong.
@Suite("Tokens and clocks that are not set")
struct TimeFloorTests {
    /// Two clocks that are set by hand.
    private final class SetClock: TimeSource {
        private let times: Mutex<(wall: Int64, running: UInt64)>

        init(_ wall: Int64) { times = Mutex((wall, 0)) }
        func monotonicNanoseconds() -> UInt64 { times.withLock { $0.running } * 1_000_000_000 }
        func wallSeconds() -> Int64 { times.withLock { $0.wall } }
        func sleep(nanoseconds: UInt64) async throws {}
        func pass(_ seconds: Int64) { times.withLock { $0 = ($0.wall + seconds, $0.running + UInt64(seconds)) } }
        func set(_ wall: Int64) { times.withLock { $0.wall = wall } }
    }

    private static let now: Int64 = 1_900_000_000
    private let folder: TemporaryFolder
    private let signer: TokenSigner

    init() throws { (folder, signer) = (try TemporaryFolder(), try TokenSigner(.ed25519)) }

    private func floor(_ clock: SetClock, isKept: Bool = false) -> TimeFloor { TimeFloor(dataFolder: folder.path, time: clock, isKept: { isKept }) }

    private func authenticator(_ clock: SetClock, _ floor: TimeFloor, keysWritten: Int64 = 0) throws -> TokenAuthenticator {
        var settings = TokenSettings()
        let path = try folder.write("keys", signer.webKeys())
        settings.keys = Located(path)
        let written = timeval(tv_sec: Int(keysWritten), tv_usec: 0)
        #expect(utimes(path, [written, written]) == 0)
        return try TokenAuthenticator.make(settings, listener: "edge", time: clock, floor: floor)
    }

    /// Why a token that expires at `end` is refused; nil if it is accepted.
    private func refusal(_ clock: SetClock, _ floor: TimeFloor, end: Int64, keysWritten: Int64 = 0) throws -> String? {
        switch try authenticator(clock, floor, keysWritten: keysWritten).judge(try signer.token("{\"sub\":\"ada\",\"exp\":\(end)}")) {
        case .accepted: return nil
        case .refused(let problem): return problem.reason
        }
    }

    private func expect(_ refusal: String?, _ words: String..., sourceLocation: SourceLocation = #_sourceLocation) {
        for word in words { #expect(refusal?.contains(word) == true, "\(refusal ?? "taken")", sourceLocation: sourceLocation) }
    }

    @Test("when the clock says 1970, a token that expired before 2026, the keys or the last note is refused, and any other is accepted")
    func unset() throws {
        let clock = SetClock(100)
        for isKept in [false, true] {
            let floor = floor(clock, isKept: isKept)
            expect(try refusal(clock, floor, end: 1_700_000_000), "it expired", "looks unset", "earliest_time")
            #expect(try refusal(clock, floor, end: Self.now) == nil)
            expect(try refusal(clock, floor, end: Self.now - 1_000, keysWritten: Self.now), "it expired", "looks unset", "keys was written at")
            #expect(try refusal(clock, floor, end: Self.now + 1, keysWritten: Self.now) == nil)
        }
        try folder.write("clock.noted", "\(Self.now)\n")
        expect(try refusal(clock, floor(clock), end: Self.now - 1_000), "it expired", "looks unset", "the agent ran here at")
        // A damaged file says nothing about the time.
        for text in ["", "soon\n", "-5\n", "99999999999999999\n"] {
            try folder.write("clock.noted", text)
            #expect(try refusal(clock, floor(clock), end: Self.now - 1_000) == nil, "\(text)")
        }
    }

    @Test("the time is noted while the agent runs, and a later start with an earlier clock uses it, unless something keeps the clock right")
    func noted() throws {
        let clock = SetClock(Self.now)
        let first = floor(clock)
        first.note()
        #expect(!folder.exists("clock.noted"), "it may be set in a moment")
        for _ in 0..<3 {
            clock.pass(TimeFloor.interval / 2)
            first.note()
        }
        let last = try #require(Int64(try folder.text("clock.noted").dropLast()))
        #expect((Self.now + TimeFloor.interval...clock.wallSeconds()).contains(last))

        let late = SetClock(Self.now - 86_400)
        let second = floor(late)
        expect(try refusal(late, second, end: Self.now - 3_600), "it expired", "looks unset", "the agent ran here at")
        #expect(second.now(keys: nil).seconds == last)
        #expect(try refusal(late, second, end: Self.now + 86_400) == nil)
        // A clock that is kept right is believed at once, and its time replaces the note.
        let third = floor(late, isKept: true)
        #expect(try refusal(late, third, end: Self.now - 3_600) == nil)
        third.note()
        #expect(try folder.text("clock.noted") == "\(late.wallSeconds())\n")
        #expect(floor(late).now(keys: nil).doubt == nil)
    }

    @Test("a clock that nothing keeps right and that was set in between is noted only after it has run undisturbed for a while; a clock before 2026 never is")
    func jumps() throws {
        let clock = SetClock(Self.now + 86_400 * 365)
        let floor = floor(clock)
        floor.note()
        clock.pass(TimeFloor.interval - 10)
        clock.set(Self.now)
        floor.note()
        clock.pass(20)
        floor.note()
        #expect(!folder.exists("clock.noted"))
        clock.set(100)
        for _ in 0..<3 {
            clock.pass(TimeFloor.interval)
            floor.note()
        }
        #expect(!folder.exists("clock.noted") && floor.now(keys: nil).seconds == StoreLimits.earliestSeconds)
    }

    @Test("if the system does not say whether its clock is kept right, the clock does not count as kept right")
    func unknown() {
        let (error, unsynchronised): (Int32, Int32) = (5, 0x40)
        #expect(!System.isKept(answer: -1, status: 0), "the question was refused")
        #expect(!System.isKept(answer: error, status: 0) && !System.isKept(answer: 0, status: unsynchronised))
        #expect(System.isKept(answer: 0, status: 0))
    }

    @Test("connections end by the same time, and by the clock once it is set")
    func connections() throws {
        try folder.write("clock.noted", "\(Self.now)\n")
        let clock = SetClock(100)
        let authenticator = try authenticator(clock, floor(clock))
        #expect(authenticator.now.seconds == Self.now && authenticator.now.doubt != nil)
        clock.set(Self.now + 5)
        #expect(authenticator.now.seconds == Self.now + 5 && authenticator.now.doubt == nil)
    }
}
