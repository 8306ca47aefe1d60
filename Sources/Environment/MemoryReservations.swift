/// Memory for work that is done in one go and makes much of little, such as a delta on a large document: it is asked for before the work is
/// begun, and given back after.
extension MemoryBudget {
    struct Waiter {
        var bytes: Int
        var continuation: CheckedContinuation<Bool, Never>
    }

    /// Part of the budget that is taken for work; it is given back when nobody holds it any more, so on every path.
    public final class Reservation: Sendable {
        private let budget: MemoryBudget
        private let bytes: Int

        fileprivate init(_ budget: MemoryBudget, _ bytes: Int) {
            self.budget = budget
            self.bytes = bytes
        }

        deinit { budget.giveBack(bytes) }
    }

    /// All work together has no more: what peers make us hold beside it must not stop it, nor it them.
    public var workLimit: Int { limit / 2 }

    /// Takes a part of the budget for work, after those who asked before. Nobody is evicted for it.
    ///
    /// - Returns: nil when it does not fit and there is no other work whose end could change that: do without.
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

    /// Takes a part of the budget for what a peer makes us hold next. Where there is none it is waited for, first for others to let go of what they have,
    /// then for those to end that owe the most.
    ///
    /// - Parameter looks: how often it may still be looked in vain.
    /// - Returns: nil when it could never fit, or did not.
    public func reserve(_ bytes: Int, looks: inout Int) async -> Reservation? {
        while true {
            if let reservation = await reserve(bytes) { return reservation }
            guard bytes <= workLimit, looks > 0 else { return nil }
            looks -= 1
            if looks == Self.looksAfterEviction { makeRoom(for: bytes) }
            do { try await time.sleep(nanoseconds: Self.lookNanoseconds) } catch { return nil }
        }
    }

    /// How often it is looked for room in vain: for two seconds, with one of them before anybody has to go.
    public static let mostLooks = 40
    private static let looksAfterEviction = 20
    private static let lookNanoseconds: UInt64 = 50_000_000

    /// Takes a part of the budget for work that is begun now or not at all, behind those who wait.
    ///
    /// - Returns: nil when it does not fit.
    public func reserveNow(_ bytes: Int) -> Reservation? {
        guard bytes > 0 else { return Reservation(self, 0) }
        let isGranted = state.withLock { state in
            guard state.waiters.isEmpty, fits(bytes, state) else { return false }
            take(bytes, &state)
            return true
        }
        return isGranted ? Reservation(self, bytes) : nil
    }

    /// Takes a part of the budget for what is read next, where that leaves everybody undisturbed.
    ///
    /// - Parameter others: so much more would do so, too.
    public func reserveUndisturbing(_ bytes: Int, beside others: Int = 0) -> Reservation? {
        let isGranted = state.withLock { state in
            guard state.used + bytes + others <= calm(state) else { return false }
            take(bytes, &state)
            return true
        }
        return isGranted ? Reservation(self, bytes) : nil
    }

    /// Work waits for a part of the budget. Where it needs all that work may have, it never has its turn while others go on taking parts.
    public var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// So much more would leave everybody undisturbed.
    public func hasRoom(for bytes: Int) -> Bool { state.withLock { $0.used + bytes <= calm($0) } }

    /// So much more would have nobody put off.
    public func fits(_ bytes: Int) -> Bool { state.withLock { $0.used + bytes <= most($0) } }

    /// Nothing is left: whoever may take more waits until somebody has let go of what he has.
    public var isUsedUp: Bool { !fits(0) }

    /// So little is left that whoever has us work takes no more until that is done, however small its part: many small parts are much.
    public var isShort: Bool { !fits(limit / 8) }

    /// Bytes that are reserved for work.
    public var reserved: Int { state.withLock { $0.reserved } }
    /// The most that was reserved at a time.
    public var highestReserved: Int { state.withLock { $0.highestReserved } }

    private func fits(_ bytes: Int, _ state: State) -> Bool { state.reserved + bytes <= workLimit && state.used + bytes <= most(state) }

    private func take(_ bytes: Int, _ state: inout State) {
        state.reserved += bytes
        state.highestReserved = max(state.highestReserved, state.reserved)
        state.used += bytes
        state.highest = max(state.highest, state.used)
    }

    fileprivate func giveBack(_ bytes: Int) {
        guard bytes > 0 else { return }
        let (answers, calls) = state.withLock { state -> ([(Waiter, Bool)], [Call]) in
            state.reserved -= bytes
            state.used -= bytes
            var answers: [(Waiter, Bool)] = []
            while let first = state.waiters.first, fits(first.bytes, state) || state.reserved == 0 {
                let isGranted = fits(first.bytes, state)
                if isGranted { take(first.bytes, &state) }
                answers.append((state.waiters.removeFirst(), isGranted))
            }
            var calls: [Call] = []
            if state.used <= calm(state) { relieve(&state, &calls) }
            return (answers, calls)
        }
        for (waiter, isGranted) in answers { waiter.continuation.resume(returning: isGranted) }
        for (call, standing) in calls { call(standing) }
    }
}
