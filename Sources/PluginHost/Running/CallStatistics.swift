import LuaRuntime
import Synchronization

/// One plugin's counts over all workers. Workers add to them once per turn, not for each document.
final class CallStatistics: Sendable {
    struct Hook: Sendable {
        var calls: UInt64 = 0
        var rejected: UInt64 = 0
        /// Documents, conflicts or logins for which a failing use was not called.
        var notAsked: UInt64 = 0
        /// By kind, in the order of `LuaFailureKind.all`.
        var errors = [UInt64](repeating: 0, count: LuaFailureKind.all.count)
        /// For the version in force.
        var latencies = LatencyHistogram()
        /// For all versions, in the buckets exported to monitoring systems.
        var durations = DurationBuckets()
    }

    struct Counts: Sendable {
        var hooks: [LuaHook: Hook] = [:]
        var hits = PluginStatus.LimitHits()
        var lastFailure: String?
        /// Memory of the plugin's Lua states.
        var memoryBytes = 0
        var states = 0

        var all: Hook { hooks.values.reduce(into: Hook()) { $0.add($1) } }
    }

    private let counts = Mutex(Counts())

    func read() -> Counts { counts.withLock { $0 } }

    func add(_ turn: TurnCounts, _ hook: LuaHook) {
        counts.withLock {
            $0.hooks[hook, default: Hook()].calls += turn.calls
            $0.hooks[hook, default: Hook()].rejected += turn.rejected
            $0.hooks[hook, default: Hook()].latencies.add(turn.latencies)
            $0.hooks[hook, default: Hook()].durations.add(turn)
        }
    }

    func failed(_ failure: LuaFailure, _ hook: LuaHook) {
        counts.withLock {
            if let index = LuaFailureKind.all.firstIndex(of: failure.kind) { $0.hooks[hook, default: Hook()].errors[index] += 1 }
            switch failure.kind {
            case .timeout: $0.hits.timeouts += 1
            case .memory: $0.hits.memory += 1
            case .result: $0.hits.results += 1
            case .error, .load: break
            }
            $0.lastFailure = "\(failure.kind.rawValue): \(failure.message)"
        }
    }

    func notAsked(_ count: Int, _ hook: LuaHook) { counts.withLock { $0.hooks[hook, default: Hook()].notAsked += UInt64(count) } }
    func rebuilt() { counts.withLock { $0.hits.statesRebuilt += 1 } }
    func droppedLogLines(_ lines: Int) { counts.withLock { $0.hits.logLinesDropped += UInt64(max(0, lines)) } }
    func holds(_ bytes: Int, states: Int) {
        counts.withLock {
            $0.memoryBytes += bytes
            $0.states += states
        }
    }
    /// Times and failures of an old version are meaningless for a new one.
    func versionChanged() {
        counts.withLock { counts in
            counts.lastFailure = nil
            for hook in counts.hooks.keys { counts.hooks[hook]?.latencies = LatencyHistogram() }
        }
    }
}

extension CallStatistics.Hook {
    mutating func add(_ other: CallStatistics.Hook) {
        calls += other.calls
        rejected += other.rejected
        notAsked += other.notAsked
        for index in errors.indices { errors[index] += other.errors[index] }
        latencies.add(other.latencies)
        durations.add(other.durations)
    }
}

extension LuaFailureKind {
    static let all: [LuaFailureKind] = [.error, .timeout, .memory, .result, .load]
}

/// Durations in a few buckets, like a Prometheus histogram.
struct DurationBuckets: Sendable {
    /// Upper bounds in nanoseconds; one more bucket is above them.
    static let bounds: [UInt64] = [
        10_000, 100_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 250_000_000, 1_000_000_000,
    ]

    var counts = [UInt64](repeating: 0, count: bounds.count + 1)
    var nanoseconds: UInt64 = 0

    mutating func add(_ turn: TurnCounts) {
        nanoseconds &+= turn.nanoseconds
        for entry in turn.latencies {
            let bound = LatencyHistogram.lowerBound(of: entry.bucket)
            counts[Self.bounds.firstIndex { bound < Double($0) } ?? Self.bounds.count] += entry.count
        }
    }

    mutating func add(_ other: DurationBuckets) {
        nanoseconds &+= other.nanoseconds
        for index in counts.indices { counts[index] += other.counts[index] }
    }
}

/// The counts of one turn on a worker.
struct TurnCounts {
    var calls: UInt64 = 0
    var rejected: UInt64 = 0
    var nanoseconds: UInt64 = 0
    /// Buckets of single calls; there are few different ones in a turn.
    var latencies: [(bucket: Int, count: UInt64)] = []

    /// Several short calls are timed together and share the time: reading the clock costs a tenth of a filter call.
    mutating func took(_ nanoseconds: UInt64, calls count: Int = 1) {
        let count = UInt64(max(1, count))
        calls += count
        self.nanoseconds &+= nanoseconds
        let bucket = LatencyHistogram.bucket(of: nanoseconds / count)
        for index in latencies.indices where latencies[index].bucket == bucket {
            latencies[index].count += count
            return
        }
        latencies.append((bucket, count))
    }
}

/// Durations in buckets an eighth of a power of two wide.
struct LatencyHistogram: Sendable {
    private static let bucketCount = 496
    private var buckets: [UInt64] = []

    @inline(__always)
    static func bucket(of nanoseconds: UInt64) -> Int {
        if nanoseconds < 8 { return Int(nanoseconds) }
        let exponent = 63 - nanoseconds.leadingZeroBitCount
        return (exponent - 2) * 8 + Int((nanoseconds >> UInt64(exponent - 3)) & 7)
    }

    private static func upperBound(of bucket: Int) -> Double {
        if bucket < 8 { return Double(bucket + 1) }
        let exponent = bucket / 8 + 2
        return Double(8 + bucket % 8 + 1) * Double(UInt64(1) << UInt64(exponent - 3))
    }

    static func lowerBound(of bucket: Int) -> Double { bucket == 0 ? 0 : upperBound(of: bucket - 1) }

    mutating func add(_ other: LatencyHistogram) {
        if buckets.isEmpty { buckets = other.buckets } else { for (index, count) in other.buckets.enumerated() { buckets[index] += count } }
    }

    mutating func add(_ turn: [(bucket: Int, count: UInt64)]) {
        if buckets.isEmpty { buckets = Array(repeating: 0, count: Self.bucketCount) }
        for entry in turn { buckets[entry.bucket] += entry.count }
    }

    /// The time that this share of the calls did not exceed, in nanoseconds; nil if there were no calls.
    func quantile(_ share: Double) -> Double? {
        let total = buckets.reduce(0, +)
        guard total > 0 else { return nil }
        let rank = UInt64((Double(total) * share).rounded(.up))
        var seen: UInt64 = 0
        for (bucket, count) in buckets.enumerated() {
            seen += count
            if seen >= rank { return Self.upperBound(of: bucket) }
        }
        return nil
    }
}
