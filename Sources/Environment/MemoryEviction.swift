/// Which connections have to end when the budget is used up.
extension MemoryBudget {
    /// For memory that a peer is about to make us hold: answers to our requests that have stopped arriving are given up, and the largest debtors are
    /// evicted as if it were already held. Even for a large part of the budget, not everybody has to go.
    func makeRoom(for bytes: Int) {
        let now = time.monotonicNanoseconds()
        let (calls, trims, revoked) = state.withLock { state -> ([Call], [@Sendable () -> Void], [Revocation]) in
            var calls: [Call] = []
            var revoked: [Revocation] = []
            let trims = requestSpareMemory(&state)
            judgePace(now, &revoked, &state)
            evict(&state, now, for: min(bytes, evictionThreshold(state) / 4), &calls)
            return (calls, trims, revoked)
        }
        for trim in trims { trim() }
        for revocation in revoked { revocation.announce() }
        for (call, standing) in calls { call(standing) }
    }

    /// For memory that a peer waits for whose address asks for no more than its share: of other addresses that hold more than theirs, the connections
    /// are evicted that hold the most, as if it were already held. Connections for which work is in progress stay, unless their peers owe something.
    ///
    /// - Parameter address: the address of the peer that waits.
    public func makeRoom(for bytes: Int, of address: String) {
        let (calls, trims) = state.withLock { state -> ([Call], [@Sendable () -> Void]) in
            var calls: [Call] = []
            let trims = requestSpareMemory(&state)
            while state.used + bytes - state.promised - state.leaving > evictionThreshold(state) {
                let found = heaviest(state.debtors.union(state.quiet), state, besides: .address(address))
                guard let number = found, let holding = state.holdings[number] else { break }
                dismiss(number, holding, &state, &calls)
            }
            return (calls, trims)
        }
        for trim in trims { trim() }
        for (call, standing) in calls { call(standing) }
    }

    /// The connection that holds the most, of the address that holds the most, out of the addresses above their share.
    ///
    /// - Parameters:
    ///   - numbers: the connections that may go.
    ///   - origin: the one for which it would have to go: its own stay.
    private func heaviest(_ numbers: some Sequence<Int>, _ state: State, besides origin: Origin) -> Int? {
        let share = state.origins.share(of: evictionThreshold(state), besides: origin)
        var best: (sum: Int, bytes: Int, number: Int)?
        for number in numbers {
            guard let holding = state.holdings[number], holding.bytes > 0, !holding.isEvicted, !holding.isEnding, holding.origin != origin else { continue }
            // What counts with no address is ours: work in progress, or a connection that we opened.
            guard case .address = holding.origin else { continue }
            let sum = state.origins.load(of: holding.origin).bytes
            guard sum > share else { continue }
            if let best, (best.sum, best.bytes, number) > (sum, holding.bytes, best.number) { continue }
            best = (sum, holding.bytes, number)
        }
        return best?.number
    }

    /// Evicts the largest debtors, until the budget is kept with `room` to spare. Without that, quiet connections are evicted instead if they use up the
    /// budget: otherwise whoever has something to transfer would be evicted, one after the other, for as long as the quiet ones stay.
    func evict(_ state: inout State, _ now: UInt64, for room: Int = 0, _ calls: inout [Call]) {
        while state.used + room - state.promised - state.leaving > evictionThreshold(state) {
            let found = (room == 0 ? quietest(state, now) : nil) ?? largestDebtor(state, now).map { toBlame(insteadOf: $0, state, now) }
            guard let number = found, let holding = state.holdings[number] else { return }
            dismiss(number, holding, &state, &calls)
        }
    }

    private func dismiss(_ number: Int, _ holding: Holding, _ state: inout State, _ calls: inout [Call]) {
        // Its memory remains in use until it has ended: if others took its place at once, both would be in memory.
        state.withdraw(holding, number)
        state.leaving += holding.bytes
        state.holdings[number]?.spare = 0
        state.holdings[number]?.wasAsked = false
        state.holdings[number]?.owedByPeer = 0
        state.holdings[number]?.isEvicted = true
        calls.append((holding.changed, .evicted))
    }

    private func largestDebtor(_ state: State, _ now: UInt64) -> Int? {
        // Only debtors are examined: otherwise, when many honest connections use up the budget, each call would examine all of them.
        let debtors = state.debtors.compactMap { number in
            state.holdings[number].map { (number: number, origin: $0.origin, weight: $0.weight(now), isStale: $0.age(now) >= Self.staleDebt) }
        }
        let (origins, evictionThreshold) = (state.origins, evictionThreshold(state))
        let accused = Self.accused(
            debtors, origin: { $0.origin }, weight: { $0.weight }, isStale: { $0.isStale }, owesTooMuch: { origins.owesTooMuch($0, most: evictionThreshold) })
        let largest = accused.max { ($0.weight, $1.number) < ($1.weight, $0.number) }
        return largest.flatMap { $0.weight > 0 ? $0.number : nil }
    }

    /// The connection to end instead of the largest debtor, if that has only just begun to owe something and its origin holds no more than its share:
    /// once the connections of a crowd have been evicted, or if they hold much and owe nothing, it may be the only one that owes anything. Those go first
    /// for which no work is in progress. The debtor itself if no address holds more than its share.
    private func toBlame(insteadOf debtor: Int, _ state: State, _ now: UInt64) -> Int {
        guard let holding = state.holdings[debtor], holding.age(now) < Self.freshDebt else { return debtor }
        let (sum, share) = (state.origins.load(of: holding.origin).bytes, state.origins.share(of: evictionThreshold(state), besides: holding.origin))
        guard sum <= share else { return debtor }
        let idle = heaviest(state.debtors.union(state.quiet), state, besides: holding.origin)
        return idle ?? heaviest(state.holdings.keys, state, besides: holding.origin) ?? debtor
    }

    /// Nanoseconds before which a debt says nothing about its peer: anybody who transfers something owes it for that long.
    private static let freshDebt: UInt64 = 1_000_000_000

    /// Nanoseconds after which a debt is older than that of a peer which transfers something.
    private static let staleDebt: UInt64 = 10_000_000_000

    /// The quiet connection that holds the most, and of several the one that has been quiet for the longest. Nil if the quiet ones hold no more than half
    /// of the budget, if the debtors owe a quarter of it, or if one of these makes no progress: then others are to blame.
    private func quietest(_ state: State, _ now: UInt64) -> Int? {
        guard state.quietBytes > limit / 2 else { return nil }
        let debtors = state.debtors.compactMap { state.holdings[$0] }
        guard debtors.reduce(0, { $0 + $1.owedByPeer }) < limit / 4, debtors.allSatisfy({ $0.age(now) < Self.staleDebt }) else { return nil }
        let quiet = state.quiet.compactMap { number in
            state.holdings[number].map { (number: number, bytes: $0.quietBytes, since: $0.quietSince ?? .max) }
        }
        return quiet.max { ($0.bytes, $1.since, $1.number) < ($1.bytes, $0.since, $0.number) }?.number
    }
}
