import Environment
import Synchronization
import Testing

@testable import Agent

/// SIGTERM ends the agent within five seconds, whatever its peers do: what it waits for is counted, not measured.
@Suite("How long a stop waits")
struct StopLimitsTests {
    /// Every wait is over at once, and noted.
    private final class CountedTime: TimeSource {
        private let state = Mutex<[UInt64]>([])
        var waits: [UInt64] { state.withLock { $0 } }
        func monotonicNanoseconds() -> UInt64 { waits.reduce(0, +) }
        func wallSeconds() -> Int64 { 1_800_000_000 }
        func sleep(nanoseconds: UInt64) async throws { state.withLock { $0.append(nanoseconds) } }
    }

    @Test("all that it waits for, one after the other, is within what is promised, and that well before it ends itself")
    func sum() {
        #expect(StopLimits.goodbye + StopLimits.connections <= StopLimits.promised)
        #expect(StopLimits.promised == 5 && 2 * StopLimits.promised <= ProcessSignals.longestStop)
    }

    @Test("what the admin API has taken is not there for peers, so that all of it stays within what is promised")
    func left() {
        let second: UInt64 = 1_000_000_000
        let progress = StopProgress()
        #expect(progress.timeForConnections(now: 7 * second) == UInt64(StopLimits.connections) * second)
        progress.start(at: 7 * second)
        // A second signal changes nothing.
        progress.start(at: 8 * second)
        #expect(progress.timeForConnections(now: 7 * second) == UInt64(StopLimits.connections) * second)
        for used in [1, 2, 3] as [UInt64] {
            #expect(used * second + progress.timeForConnections(now: (7 + used) * second) + StopLimits.rest == UInt64(StopLimits.promised) * second)
        }
        #expect(progress.timeForConnections(now: 60 * second) == second)
        #expect(progress.timeForObservers(now: 8 * second) == StopLimits.observers)
        #expect(progress.timeForObservers(now: 11 * second) + StopLimits.rest == second)
        #expect(progress.timeForObservers(now: 60 * second) == second / 10)
    }

    @Test("peers that never answer are waited for once, for as long as the limit says", arguments: [StopLimits.goodbye, StopLimits.connections])
    func neverAnswered(_ seconds: Int) async {
        let time = CountedTime()
        let (never, kept) = AsyncStream.makeStream(of: Void.self)
        await Deadline.run(seconds: seconds, time) { for await _ in never {} }
        #expect(time.waits == [UInt64(seconds) * 1_000_000_000])
        kept.finish()
    }
}
