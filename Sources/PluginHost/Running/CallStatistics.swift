import LuaRuntime
import Synchronization

/// Counts of one plugin over all its workers. Workers add once a turn, not once a document.
final class CallStatistics: Sendable {
    struct Counts: Sendable {
        var calls: UInt64 = 0
        var errors: UInt64 = 0
        var rejected: UInt64 = 0
        var hits = PluginStatus.LimitHits()
        var lastFailure: String?
        var latencies = LatencyHistogram()
    }

    private let counts = Mutex(Counts())

    func read() -> Counts { counts.withLock { $0 } }
    func add(_ turn: TurnCounts) {
        counts.withLock {
            $0.calls += turn.calls
            $0.rejected += turn.rejected
            $0.latencies.add(turn.latencies)
        }
    }
    func failed(_ failure: LuaFailure) {
        counts.withLock {
            $0.errors += 1
            switch failure.kind {
            case .timeout: $0.hits.timeouts += 1
            case .memory: $0.hits.memory += 1
            case .result: $0.hits.results += 1
            case .error, .load: break
            }
            $0.lastFailure = "\(failure.kind.rawValue): \(failure.message)"
        }
    }
    func rebuilt() { counts.withLock { $0.hits.statesRebuilt += 1 } }
    func droppedLogLines(_ lines: Int) { counts.withLock { $0.hits.logLinesDropped += UInt64(max(0, lines)) } }
    /// Times of an old version say nothing about a new one.
    func versionChanged() { counts.withLock { $0.latencies = LatencyHistogram() } }
}

/// What one turn on a worker adds.
struct TurnCounts {
    var calls: UInt64 = 0
    var rejected: UInt64 = 0
    /// Buckets of single calls; few different ones in a turn.
    var latencies: [(bucket: Int, count: UInt64)] = []

    /// Several short calls are timed together, each with its share: reading the clock costs a tenth of a filter's call.
    mutating func took(_ nanoseconds: UInt64, calls count: Int = 1) {
        let count = UInt64(max(1, count))
        calls += count
        let bucket = LatencyHistogram.bucket(of: nanoseconds / count)
        for index in latencies.indices where latencies[index].bucket == bucket {
            latencies[index].count += count
            return
        }
        latencies.append((bucket, count))
    }
}

/// Durations in buckets that are an eighth of a power of two wide.
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

    mutating func add(_ turn: [(bucket: Int, count: UInt64)]) {
        if buckets.isEmpty { buckets = Array(repeating: 0, count: Self.bucketCount) }
        for entry in turn { buckets[entry.bucket] += entry.count }
    }

    /// The time that this share of the calls did not exceed, in nanoseconds; nil without calls.
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
