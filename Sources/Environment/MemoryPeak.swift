/// When free memory is to be given back, as seen by somebody who looks now and then: after a time in which much was counted, and where the process
/// keeps much beside what is counted, whatever that was.
public struct MemoryPeak: Sendable {
    let limit: Int
    private var highest = 0
    /// The least that was uncounted since free memory was last given back. That much did not go then: only what came on top is worth another try.
    private var staying = Int.max
    private var wasGivenBack = true

    /// - Parameter limit: of the ``MemoryBudget``.
    public init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - highest: the most that was in use since the last look.
    ///   - used: what is in use now.
    ///   - uncounted: what the process takes beside it and beside what it takes at rest.
    /// - Returns: whether free memory is to be given back now.
    public mutating func isOver(highest: Int, used: Int, uncounted: Int) -> Bool {
        self.highest = max(self.highest, highest)
        staying = wasGivenBack ? uncounted : min(staying, uncounted)
        wasGivenBack = false
        let isOver = self.highest >= limit / 4 && used <= self.highest / 2
        guard isOver || uncounted - staying >= limit / 8 else { return false }
        if isOver { self.highest = used }
        wasGivenBack = true
        return true
    }
}
