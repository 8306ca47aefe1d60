import Dispatch
import Documents
import Environment
import NIOCore
import Synchronization
import Testing

@testable import Replication

/// Checking the bodies that arrive, which peers can make long.
@Suite(.timeLimit(.minutes(5)))
struct CheckingTests {
    /// Runs jobs in the order in which they came, once it is opened.
    private final class OneThread: TaskExecutor {
        private let queue = DispatchQueue(label: "one thread")
        private let gate = DispatchSemaphore(value: 0)

        init() {
            let gate = gate
            queue.async { gate.wait() }
        }

        func open() { gate.signal() }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    private func revisions(_ count: Int, bytes: Int) -> [ReceivedRevision] {
        (0..<count).map { number in
            var revision = received(number, "a\(number)")
            revision.body = ByteBuffer(string: "{\"text\":\"\(String(repeating: "x", count: bytes))\"}")
            return revision
        }
    }

    @Test(arguments: [40_000, 100_000]) func aFewDocumentsDoNotWaitForEverythingAnotherPeerSent(bytes: Int) async throws {
        let (one, memory) = (OneThread(), MemoryBudget(limit: 64 << 20))
        let (many, few) = (UncheckedRevisions(revisions(200, bytes: bytes)), UncheckedRevisions(revisions(2, bytes: 100)))
        final class Ends: Sendable {
            let list = Mutex<[String]>([])
        }
        let ends = Ends()
        let tasks = [("many", many), ("few", few)].map { name, batch in
            Task(executorPreference: one) {
                let outcomes = await RevisionChecking.check(batch, unusualKeys: true, memory)
                ends.list.withLock { $0.append("\(outcomes.count) of \(name)") }
            }
        }
        one.open()
        for task in tasks { await task.value }
        #expect(ends.list.withLock { $0 } == ["2 of few", "200 of many"])
    }

    @Test func uncheckedDocumentsAreDroppedWithTheirConnection() async throws {
        let (one, memory) = (OneThread(), MemoryBudget(limit: 64 << 20))
        let batch = UncheckedRevisions(revisions(200, bytes: 40_000))
        let check = Task(executorPreference: one) { await RevisionChecking.check(batch, unusualKeys: true, memory).count }
        // The end comes in the middle of the batch.
        let end = Task(executorPreference: one) { batch.giveUp() }
        one.open()
        await end.value
        let checked = await check.value
        #expect(batch.count == 0)
        #expect(checked > 0 && checked < 10, "\(checked)")
    }
}
