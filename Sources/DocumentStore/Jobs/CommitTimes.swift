import Synchronization

/// How long commits took, from the start until they were durable: a disk that wears out becomes slow before it fails.
public struct CommitTimes: Sendable {
    /// Upper bounds in nanoseconds; one more bucket lies above them.
    private static let bounds: [UInt64] = [
        1_000_000, 5_000_000, 25_000_000, 100_000_000, 500_000_000, 2_500_000_000, 10_000_000_000,
    ]

    private var counts = [UInt64](repeating: 0, count: bounds.count + 1)
    private var nanoseconds: UInt64 = 0

    mutating func add(_ nanoseconds: UInt64) {
        counts[Self.bounds.firstIndex { nanoseconds <= $0 } ?? Self.bounds.count] += 1
        self.nanoseconds &+= nanoseconds
    }

    /// Counts (not cumulative) with their upper bounds in seconds; the last bucket has none.
    public var buckets: [(bound: Double?, count: UInt64)] {
        counts.enumerated().map { index, count in (index < Self.bounds.count ? Double(Self.bounds[index]) / 1e9 : nil, count) }
    }

    public var seconds: Double { Double(nanoseconds) / 1e9 }
}

/// Collects the writer's commit times.
final class CommitMeter: Sendable {
    private let times = Mutex(CommitTimes())

    var now: CommitTimes { times.withLock { $0 } }

    func add(_ nanoseconds: UInt64) { times.withLock { $0.add(nanoseconds) } }
}
