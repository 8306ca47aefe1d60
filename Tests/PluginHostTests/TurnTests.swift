import Environment
import Synchronization
import Testing

@testable import PluginHost

/// Lines of jobs take turns. Counted in turns on one worker, which is the order of the work, whatever else the machine does.
@Suite(.timeLimit(.minutes(10)))
struct TurnTests {
    private final class Log: Sendable {
        let turns = Mutex<[String]>([])
        private let finished = AsyncStream.makeStream(of: Void.self)

        func add(_ name: String) { turns.withLock { $0.append(name) } }
        func finish() { finished.continuation.yield() }
        func wait(for count: Int) async {
            var left = count
            for await _ in finished.stream {
                left -= 1
                if left == 0 { return }
            }
        }
    }

    /// Needs so many turns.
    private final class Job: PluginJob {
        let line: Int
        private let name: String
        private let left: Mutex<Int>
        private let log: Log

        init(_ name: String, line: Int, turns: Int, _ log: Log) {
            (self.name, self.line, self.log) = (name, line, log)
            left = Mutex(turns)
        }

        func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
            log.add(name)
            let isDone = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isDone { log.finish() }
            return isDone
        }

        func refuse(_ error: PluginError) { log.add("\(name) refused") }
    }

    /// Submits others in its one turn: the worker looks at none of them before all are there.
    private final class Opening: PluginJob {
        let line = 0
        private let jobs: [Job]
        private let workers: PluginWorkers

        init(_ jobs: [Job], _ workers: PluginWorkers) { (self.jobs, self.workers) = (jobs, workers) }

        func run(on worker: PluginWorker, until deadline: UInt64) -> Bool {
            for job in jobs { workers.submit(job) }
            return true
        }

        func refuse(_ error: PluginError) {}
    }

    @Test func aSlowPluginDelaysOthersByOneTurnEach() async throws {
        var limits = PluginHostLimits()
        limits.workers = 1
        let workers = try PluginWorkers(limits, .system)
        let log = Log()
        workers.submit(Opening([
            Job("slow", line: 1, turns: 50, log), Job("slow", line: 1, turns: 50, log), Job("fast", line: 2, turns: 1, log),
            Job("fast", line: 2, turns: 1, log), Job("fast", line: 2, turns: 1, log),
        ], workers))
        await log.wait(for: 5)
        let turns = log.turns.withLock { $0 }
        #expect(turns.prefix(6) == ["slow", "fast", "slow", "fast", "slow", "fast"])
        #expect(turns.count == 103)
        await Task.detached { workers.close() }.value
    }
}
