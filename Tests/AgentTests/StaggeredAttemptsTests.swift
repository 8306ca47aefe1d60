import Environment
import Interfaces
import Synchronization
import Testing

@testable import Agent

/// Attempts to connect, several at a time.
@Suite("Attempts of which one is enough", .timeLimit(.minutes(5)))
struct StaggeredAttemptsTests {
    /// What is waited for has passed at once.
    private struct QuickTime: TimeSource {
        func monotonicNanoseconds() -> UInt64 { 0 }
        func wallSeconds() -> Int64 { 0 }
        func sleep(nanoseconds: UInt64) async throws {}
    }

    /// Nothing passes until the wait is cancelled.
    private struct StandingTime: TimeSource {
        func monotonicNanoseconds() -> UInt64 { 0 }
        func wallSeconds() -> Int64 { 0 }
        func sleep(nanoseconds: UInt64) async throws { try await StaggeredAttemptsTests.wait() }
    }

    /// Until it is cancelled.
    private static func wait() async throws { try await SystemTime().sleep(seconds: 3_600) }

    private static let refused = ReplicationError(network: .refused, message: "nobody listens")

    @Test("those that do not answer hold up nobody, and are cancelled by the first success")
    func silent() async throws {
        let cancelled = Mutex<Set<Int>>([])
        let first = try await StaggeredAttempts(count: 10, time: QuickTime()).first { number -> String in
            guard number < 3 else { return "\(number)" }
            do { try await Self.wait() } catch {
                cancelled.withLock { _ = $0.insert(number) }
                throw error
            }
            return "never"
        } failed: { number, error in
            Issue.record("\(number): \(error)")
        } discard: {
            Issue.record("\($0)")
        }
        #expect(first?.number == 3 && first?.success == "3")
        #expect(cancelled.withLock { $0 } == [0, 1, 2])
    }

    @Test("the next one begins as soon as one fails, in order and not before; nil if all fail")
    func failing() async throws {
        var failures: [Int] = []
        let first = try await StaggeredAttempts(count: 3, time: StandingTime()).first { number -> Int in
            guard number == 2 else { throw Self.refused }
            return number
        } failed: { number, _ in failures.append(number) } discard: { Issue.record("\($0)") }
        #expect(first?.number == 2 && failures == [0, 1])
        failures = []
        let none = try await StaggeredAttempts(count: 3, time: StandingTime()).first { _ -> Int in throw Self.refused } failed: { number, _ in
            failures.append(number)
        } discard: { Issue.record("\($0)") }
        #expect(none == nil && failures == [0, 1, 2])
        #expect(try await StaggeredAttempts(count: 0, time: StandingTime()).first { $0 } failed: { _, _ in } discard: { _ in } == nil)
    }

    @Test("never more than four at a time")
    func bounded() async throws {
        let counts = Mutex((running: 0, most: 0, begun: 0))
        let none = try await StaggeredAttempts(count: 40, time: QuickTime()).first { _ -> Int in
            counts.withLock { $0 = ($0.running + 1, max($0.most, $0.running + 1), $0.begun + 1) }
            defer { counts.withLock { $0.running -= 1 } }
            try? await SystemTime().sleep(nanoseconds: 1_000_000)
            throw Self.refused
        } failed: { _, _ in } discard: { _ in }
        let seen = counts.withLock { $0 }
        #expect(none == nil && seen.begun == 40 && seen.most <= StaggeredAttempts.most, "\(seen)")
    }

    @Test("a success that comes too late is discarded")
    func late() async throws {
        var discarded: [Int] = []
        let first = try await StaggeredAttempts(count: 2, time: QuickTime()).first { number -> Int in
            if number == 0 { try? await Self.wait() }
            return number
        } failed: { number, error in Issue.record("\(number): \(error)") } discard: { discarded.append($0) }
        #expect(first?.number == 1 && discarded == [0])
    }

    @Test("an error that is none of the network's ends it, and so does a cancelled task")
    func ends() async throws {
        struct Odd: Error {}
        await #expect(throws: Odd.self) {
            _ = try await StaggeredAttempts(count: 5, time: StandingTime()).first { _ -> Int in throw Odd() } failed: { _, _ in } discard: { _ in }
        }
        let task = Task {
            try await StaggeredAttempts(count: 5, time: StandingTime()).first { _ -> Int in
                try await Self.wait()
                return 0
            } failed: { _, _ in } discard: { _ in }?.number
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
    }
}
