/// When a time of much memory is over, as seen by somebody who looks now and then.
public struct MemoryPeak: Sendable {
    let limit: Int
    private var highest = 0

    /// - Parameter limit: of the ``MemoryBudget``.
    public init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - highest: the most that was in use since the last look.
    ///   - used: what is in use now.
    public mutating func isOver(highest: Int, used: Int) -> Bool {
        self.highest = max(self.highest, highest)
        guard self.highest >= limit / 4, used <= self.highest / 2 else { return false }
        self.highest = used
        return true
    }
}
