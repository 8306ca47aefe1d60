/// Memory for work that is done in one go and expands its input, such as a delta on a large document: it is reserved before the work begins, and
/// released afterwards.
extension MemoryBudget {
    struct Waiter {
        var bytes: Int
        var continuation: CheckedContinuation<Bool, Never>
    }

    /// A part of the budget reserved for work; released with its last reference, so on every path.
    public final class Reservation: Sendable {
        private let budget: MemoryBudget
        private let bytes: Int
        private let isLent: Bool

        fileprivate init(_ budget: MemoryBudget, _ bytes: Int, isLent: Bool = false) {
            self.budget = budget
            self.bytes = bytes
            self.isLent = isLent
        }

        deinit { budget.relinquish(bytes, isLent: isLent) }
    }

    /// The maximum for all work together: it and what peers make us hold must not stop each other.
    public var workLimit: Int { limit / 2 }

    /// Reserves a part of the budget for work, after earlier callers have been served. Nobody is evicted for it.
    ///
    /// - Returns: nil if it does not fit and no other work is in progress whose end could change that: do without.
    public func reserve(_ bytes: Int) async -> Reservation? {
        guard bytes > 0 else { return Reservation(self, 0) }
        guard bytes <= workLimit else { return nil }
        let isGranted = await withCheckedContinuation { continuation in
            let answer = state.withLock { state -> Bool? in
                if state.waiters.isEmpty, fits(bytes, state) {
                    take(bytes, &state)
                    return true
                }
                if state.reserved == 0 { return false }
                state.waiters.append(Waiter(bytes: bytes, continuation: continuation))
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
        return isGranted ? Reservation(self, bytes) : nil
    }

    /// Reserves a part of the budget for what a peer makes us hold next. If there is none, this waits, first for others to release what they have,
    /// then for the eviction of the largest debtors.
    ///
    /// - Parameter attemptsLeft: the number of unsuccessful checks that are still allowed.
    /// - Returns: nil if it could never fit, or did not.
    public func reserve(_ bytes: Int, attemptsLeft: inout Int) async -> Reservation? {
        while true {
            if let reservation = await reserve(bytes) { return reservation }
            guard bytes <= workLimit, attemptsLeft > 0 else { return nil }
            attemptsLeft -= 1
            if attemptsLeft == Self.checksAfterEviction { makeRoom(for: bytes) }
            do { try await time.sleep(nanoseconds: Self.checkNanoseconds) } catch { return nil }
        }
    }

    /// Maximum number of unsuccessful checks for memory: for two seconds, the first of them without any eviction.
    public static let maximumRoomChecks = 40
    private static let checksAfterEviction = 20
    private static let checkNanoseconds: UInt64 = 50_000_000

    /// Reserves a part of the budget for work that begins now or not at all, behind callers that wait.
    ///
    /// - Returns: nil if it does not fit.
    public func reserveNow(_ bytes: Int) -> Reservation? {
        guard bytes > 0 else { return Reservation(self, 0) }
        let isGranted = state.withLock { state in
            guard state.waiters.isEmpty, fits(bytes, state) else { return false }
            take(bytes, &state)
            return true
        }
        return isGranted ? Reservation(self, bytes) : nil
    }

    /// Takes a part of the budget for something that lasts as long as a peer likes, behind callers that wait. Unlike a reservation for work, it is
    /// nothing whose end others wait for, and leaves all of ``workLimit`` to them.
    ///
    /// - Returns: nil if it does not fit.
    public func lend(_ bytes: Int) -> Reservation? {
        let isGranted = state.withLock { state in
            guard state.waiters.isEmpty, state.lent + state.reserved + bytes <= workLimit, state.used + bytes <= evictionThreshold(state) else { return false }
            state.lent += bytes
            use(bytes, &state)
            return true
        }
        return isGranted ? Reservation(self, bytes, isLent: true) : nil
    }

    /// Reserves a part of the budget for what is read next, if no restrictions follow from that.
    ///
    /// - Parameters:
    ///   - others: additional bytes that must fit as well.
    ///   - despiteRestrictions: whether it is enough that nobody is evicted for it.
    public func reserveWithoutEviction(_ bytes: Int, beside others: Int = 0, despiteRestrictions: Bool = false) -> Reservation? {
        let isGranted = state.withLock { state in
            guard state.used + bytes + others <= (despiteRestrictions ? evictionThreshold(state) : restrictionThreshold(state)) else { return false }
            take(bytes, &state)
            return true
        }
        return isGranted ? Reservation(self, bytes) : nil
    }

    /// Whether work is waiting for a part of the budget. If it needs everything that work may use, it would never get its turn while others keep
    /// reserving parts.
    public var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// Whether this much more would cause no restrictions.
    public func hasRoom(for bytes: Int) -> Bool { state.withLock { $0.used + bytes <= restrictionThreshold($0) } }

    /// Up to how many bytes in use there are no restrictions.
    public var unrestricted: Int { state.withLock { restrictionThreshold($0) } }

    /// How many bytes others have to release before this much more would cause no restrictions, or at least nobody to be evicted.
    public func shortfall(for bytes: Int, despiteRestrictions: Bool = false) -> Int {
        state.withLock { max(0, $0.used + bytes - (despiteRestrictions ? evictionThreshold($0) : restrictionThreshold($0))) }
    }

    /// Whether this much more would cause nobody to be put off.
    public func fits(_ bytes: Int) -> Bool { state.withLock { $0.used + bytes <= evictionThreshold($0) } }

    /// Nothing is left: anything that may take more waits until somebody has released memory.
    public var isUsedUp: Bool { !fits(0) }

    /// So little is left that callers who have work done for them take no more until it is finished, however small their part: many small parts add
    /// up.
    public var isShort: Bool { !fits(limit / 8) }

    /// The most that a single answer counts, in bytes, however large it is: so much that nobody is evicted for it alone, together with what its connection
    /// has not sent yet.
    public var mostForOne: Int { min(limit / 2, state.withLock { evictionThreshold($0) } - limit / 8) }

    /// Bytes that are reserved for work.
    public var reserved: Int { state.withLock { $0.reserved } }
    /// The maximum that was reserved at any time.
    public var highestReserved: Int { state.withLock { $0.highestReserved } }

    private func fits(_ bytes: Int, _ state: State) -> Bool { state.reserved + bytes <= workLimit && state.used + bytes <= evictionThreshold(state) }

    private func take(_ bytes: Int, _ state: inout State) {
        state.reserved += bytes
        state.highestReserved = max(state.highestReserved, state.reserved)
        use(bytes, &state)
    }

    func use(_ bytes: Int, _ state: inout State) {
        state.used += bytes
        state.highest = max(state.highest, state.used)
    }

    fileprivate func relinquish(_ bytes: Int, isLent: Bool) {
        guard bytes > 0 else { return }
        release { state in
            if isLent { state.lent -= bytes } else { state.reserved -= bytes }
            return bytes
        }
    }

    /// Releases what `change` returns, and lets those continue that wait for it.
    func release(_ change: (inout State) -> Int) {
        let (answers, calls) = state.withLock { state -> ([(Waiter, Bool)], [Call]) in
            state.used -= change(&state)
            var answers: [(Waiter, Bool)] = []
            while let first = state.waiters.first, fits(first.bytes, state) || state.reserved == 0 {
                let isGranted = fits(first.bytes, state)
                if isGranted { take(first.bytes, &state) }
                answers.append((state.waiters.removeFirst(), isGranted))
            }
            var calls: [Call] = []
            if state.used <= restrictionThreshold(state) { relieve(&state, &calls) }
            return (answers, calls)
        }
        for (waiter, isGranted) in answers { waiter.continuation.resume(returning: isGranted) }
        for (call, standing) in calls { call(standing) }
    }
}
