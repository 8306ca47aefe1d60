/// Connections of a listener's peers that were ended because `limits.memory` was used up. The peers come back by themselves, which is why nobody would notice
/// that they get nowhere.
struct Evictions: Sendable {
    /// Those until there has been none for a while.
    struct Recent: Sendable, Equatable {
        /// Seconds since 1970.
        var since: Int64
        fileprivate var last: Int64
        var count = 0
        /// Where the last one came from.
        var address: String
    }

    /// `evictions_time`: seconds without one after which the shortage counts as over.
    private static let seconds: Int64 = 600

    private var latest: Recent?
    /// Since the start.
    private(set) var total = 0

    mutating func note(_ address: String, _ now: Int64) {
        var recent = recent(now) ?? Recent(since: now, last: now, address: address)
        (recent.last, recent.address) = (now, address)
        recent.count += 1
        total += 1
        latest = recent
    }

    func recent(_ now: Int64) -> Recent? { latest.flatMap { $0.last > now - Self.seconds ? $0 : nil } }
}
