import Environment
import Glibc

/// Runs everything that happens in a simulation, one step after another, on the thread that made it.
///
/// The seed decides the order of steps that are due at the same time. No other thread may add steps: work that has escaped to one
/// stops the test at once.
///
/// Unchecked: used only on the thread that made it, which is asserted.
package final class Scheduler: @unchecked Sendable {
    package typealias Step = @Sendable () -> Void

    /// The kind of a step, for the trace.
    package enum Kind: UInt8, Sendable { case context, task, timer, worker, network, load, fault }

    private struct Entry {
        var time: UInt64
        var tie: UInt64
        var machine: Int
        var kind: Kind
        var step: Step

        func isBefore(_ other: Entry) -> Bool { time != other.time ? time < other.time : tie < other.tie }
    }

    /// Nanoseconds since the start of the simulation.
    package private(set) var now: UInt64 = 0
    /// How many steps have been done so far.
    package private(set) var steps = 0
    /// A hash of everything that has happened: when, where and what.
    package private(set) var trace: UInt64 = 0xCBF2_9CE4_8422_2325
    /// Called with each step before it is executed.
    package var log: ((String) -> Void)?
    /// The serial context whose job runs now.
    package internal(set) var current: SimulatedContext?
    package let random: SeededRandom

    private let thread = pthread_self()
    private var heap: [Entry] = []

    package init(seed: UInt64) { random = SeededRandom(seed: seed) }

    package var isEmpty: Bool { heap.isEmpty }
    /// When the next step is due.
    package var nextTime: UInt64? { heap.first?.time }
    package var count: Int { heap.count }
    /// The machines of the timers that are left, sorted, if nothing but timers is left; nil otherwise.
    package var machinesOfTimers: [Int]? { heap.allSatisfy { $0.kind == .timer } ? heap.map(\.machine).sorted() : nil }

    func assertThread() { precondition(pthread_equal(thread, pthread_self()) != 0, "work of a simulation is running on a second thread") }

    /// A random moment shortly after now.
    package func soon(within nanoseconds: UInt64 = 20_000) -> UInt64 {
        assertThread()
        return now + 1 + random.next() % nanoseconds
    }

    package func at(_ time: UInt64, _ machine: Int, _ kind: Kind, _ step: @escaping Step) {
        assertThread()
        push(Entry(time: max(time, now), tie: random.next(), machine: machine, kind: kind, step: step))
    }

    /// Adds to the trace what a test finds worth noting.
    package func note(_ value: UInt64, _ text: @autoclosure () -> String) {
        mix(value)
        say(text())
    }

    /// Writes something to the log without changing the trace.
    package func say(_ text: @autoclosure () -> String) {
        if let log { log("\(stamp) \(text())") }
    }

    private var stamp: String {
        let micros = String(now / 1_000 % 1_000_000)
        return "\(now / 1_000_000_000).\(String(repeating: "0", count: 6 - micros.count))\(micros)"
    }

    /// Does the next step; false if none is due by this time.
    package func step(until end: UInt64 = .max) -> Bool {
        guard let first = heap.first, first.time <= end else { return false }
        let entry = pop()
        now = entry.time
        steps += 1
        mix(entry.time)
        mix(UInt64(entry.machine) << 8 | UInt64(entry.kind.rawValue))
        if let log { log("\(stamp) machine \(entry.machine): \(entry.kind)") }
        entry.step()
        return true
    }

    /// Lets time pass although nothing happens.
    package func advance(to time: UInt64) { now = max(now, time) }

    private func mix(_ value: UInt64) {
        trace = (trace ^ value) &* 0x100_0000_01B3
        trace ^= trace >> 29
    }

    // MARK: the queue, a binary heap

    private func push(_ entry: Entry) {
        heap.append(entry)
        var at = heap.count - 1
        while at > 0 {
            let parent = (at - 1) / 2
            guard heap[at].isBefore(heap[parent]) else { return }
            heap.swapAt(at, parent)
            at = parent
        }
    }

    private func pop() -> Entry {
        heap.swapAt(0, heap.count - 1)
        let first = heap.removeLast()
        var at = 0
        while true {
            var smallest = at
            for child in [2 * at + 1, 2 * at + 2] where child < heap.count && heap[child].isBefore(heap[smallest]) { smallest = child }
            if smallest == at { return first }
            heap.swapAt(at, smallest)
            at = smallest
        }
    }
}
