/// Decides when the present memory use of the process counts as its use at rest.
struct MemoryRest {
    /// Number of checks in a row: before that, recently held memory may not have been returned yet.
    static let checks = 5
    /// Number of checks at rest after which free memory is returned again: connections that end then leave some.
    private static let checksBetweenReturns = 30

    /// The limit of the ``MemoryBudget``.
    let limit: Int
    private var quiet = 0
    private var uncounted = 0

    init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - highest: the maximum in use since the last check.
    ///   - used: what is in use now.
    ///   - uncounted: the memory of the process beyond that and beyond what it uses at rest. What stays the same from check to check while nothing is held,
    ///     although free memory is returned, is not going to be returned: otherwise a client that repeats a request which is refused for want of memory would
    ///     keep it refused for ever.
    mutating func isAtRest(highest: Int, used: Int, uncounted: Int) -> Bool {
        let little = limit / 16
        let isStable = used <= little && abs(uncounted - self.uncounted) <= little
        self.uncounted = uncounted
        quiet = highest <= little || isStable ? quiet + 1 : 0
        return quiet >= Self.checks
    }

    /// Whether free memory has to be returned before the present use counts as the use at rest.
    var returnsFreeMemory: Bool { quiet == Self.checks || quiet % Self.checksBetweenReturns == 0 || uncounted > limit / 16 }
}
