import Dispatch
import Documents
import Environment
import Selectors
import Synchronization
import Testing

@testable import CouchDBServer

/// A client's selector takes as long as it may, and nobody else waits for it.
@Suite struct SelectorMatchingTests {
    /// 300,001 steps for each document.
    private let selector: Selector
    private let document: JSONValue

    init() throws {
        selector = try Selector(JSONValue(parsing: Array("{\"l\":{\"$all\":[\((0..<300).map { "\(-$0)" }.joined(separator: ","))]}}".utf8)))
        document = try JSONValue(parsing: Array("{\"l\":[\(Array(repeating: "1", count: 1_000).joined(separator: ","))]}".utf8))
    }

    /// Runs one job at a time, in the order in which they come.
    private final class OneThread: TaskExecutor {
        private let queue = DispatchQueue(label: "one thread")

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    private final class Counter: Sendable {
        let number = Mutex(0)
        var current: Int { number.withLock { $0 } }
    }

    private final class Asking: Sendable {
        let task = Mutex<Task<Void, any Error>?>(nil)
    }

    @Test("a turn ends after the document that exceeds it, and the next one starts with the excess")
    func turns() async throws {
        let (selector, document) = (selector, document)
        let turn = try await SelectorMatching.each(Array(1...10), SelectorBudget(), turn: 1_000_000, .system) { number, budget in
            _ = try selector.matches(document, &budget)
            return number
        }
        #expect(turn.found == [1, 2, 3, 4] && turn.budget.spent > 1_200_000)
        let few = SelectorBudget(2_000_000)
        let error = await #expect(throws: SelectorError.self) {
            try await SelectorMatching.each(Array(1...10), few, turn: .max, .system) { _, budget in try selector.matches(document, &budget) }
        }
        #expect(error?.reason.contains("selector_request_steps") == true)
    }

    @Test("between documents other work gets the thread")
    func others() async throws {
        let environment = Environment(time: SystemTime(), random: SystemRandom(), taskExecutor: OneThread())
        let (selector, document) = (selector, document)
        let (count, countThen) = (Counter(), Counter())
        _ = try await SelectorMatching.each(Array(1...10), SelectorBudget(), turn: .max, environment) { number, budget in
            if number == 1 { environment.task { countThen.number.withLock { $0 = count.current } } }
            count.number.withLock { $0 += 1 }
            return try selector.matches(document, &budget)
        }
        #expect(countThen.current == 1)
    }

    @Test("it ends with the request that asks")
    func cancelling() async throws {
        let (asking, count) = (Asking(), Counter())
        let task = asking.task.withLock { asked in
            let task = Task {
                _ = try await SelectorMatching.each(Array(1...10), SelectorBudget(), .system) { number, _ in
                    count.number.withLock { $0 += 1 }
                    if number == 2 { asking.task.withLock { $0?.cancel() } }
                }
            }
            asked = task
            return task
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(count.current == 2)
    }
}
