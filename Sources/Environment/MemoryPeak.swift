/// Decides when to return free memory to the system, based on occasional checks: after a period in which much was counted, and when the process keeps
/// much beyond what is counted, for whatever reason.
public struct MemoryPeak: Sendable {
    let limit: Int
    private var highest = 0
    /// The least that has been uncounted since free memory was last returned. That much could not be returned then: only an excess is worth another
    /// try.
    private var staying = Int.max
    private var wasReleased = true

    /// - Parameter limit: the limit of the ``MemoryBudget``.
    public init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - highest: the maximum in use since the last check.
    ///   - used: what is in use now.
    ///   - uncounted: the memory of the process beyond that and beyond what it uses at rest.
    /// - Returns: whether to return free memory now.
    public mutating func isOver(highest: Int, used: Int, uncounted: Int) -> Bool {
        self.highest = max(self.highest, highest)
        staying = wasReleased ? uncounted : min(staying, uncounted)
        wasReleased = false
        let isOver = self.highest >= limit / 4 && used <= self.highest / 2
        guard isOver || uncounted - staying >= limit / 8 else { return false }
        if isOver { self.highest = used }
        wasReleased = true
        return true
    }
}
