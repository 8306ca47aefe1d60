import Environment
import SimulationSupport
import Synchronization

/// A clock that stands still.
struct StandingClock: TimeSource {
    func monotonicNanoseconds() -> UInt64 { 0 }
    func wallSeconds() -> Int64 { 1_700_000_000 }
    func sleep(nanoseconds: UInt64) async throws {}
}

final class Steps: Sendable {
    private let waiting = Mutex<[ScheduledWorkers.Step]>([])

    func add(_ step: @escaping ScheduledWorkers.Step) { waiting.withLock { $0.append(step) } }
    func removeFirst() -> ScheduledWorkers.Step? { waiting.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
}

/// A machine of one thread: steps wait in a list until they are run.
final class Machine {
    let random: SeededRandom
    let disk: SimulatedDisk
    private(set) var workers: ScheduledWorkers
    private let steps = Steps()

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        disk = SimulatedDisk(time: StandingClock(), random: random)
        let steps = steps
        workers = ScheduledWorkers { _, step in steps.add(step) }
    }

    var environment: Environment {
        Environment(time: StandingClock(), random: random, workers: workers, files: disk, sqliteVFS: disk.vfsName)
    }

    /// Runs steps until none waits.
    func run() {
        while let step = steps.removeFirst() { step() }
    }

    /// The power goes and comes back.
    func crash() {
        workers.abandon()
        disk.crash(random)
        let steps = steps
        workers = ScheduledWorkers { _, step in steps.add(step) }
    }
}

/// What a completion was given.
final class Answers<Value: Sendable>: Sendable {
    private let results = Mutex<[Result<Value, any Error>]>([])

    func take(_ result: Result<Value, any Error>) { results.withLock { $0.append(result) } }

    var all: [Result<Value, any Error>] { results.withLock { $0 } }
    var successes: [Value] { all.compactMap { try? $0.get() } }
}
