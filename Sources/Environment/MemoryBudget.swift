import Synchronization

/// What an agent may hold in memory for its peers, over all connections: messages that are not complete, lists and revisions that
/// wait, replies that nobody has read, bodies of requests.
///
/// Back-pressure comes first: above three quarters of the budget, whoever holds more than its fair share is told to take no more.
/// When the budget is used up all the same, the connection gives way whose peer makes us hold the most for the longest, without progress.
public final class MemoryBudget: Sendable {
    /// How a connection stands in the budget.
    public enum Standing: Sendable, Equatable {
        case free
        /// No more may be taken from the peer, or read for it, until what is here is done.
        case crowded
        /// The connection has to end.
        case evicted
    }

    /// What one connection holds.
    fileprivate struct Holding {
        var bytes = 0
        /// The part that only the peer can make go away: messages it has not ended, replies it has not read.
        var owedByPeer = 0
        /// Since when, in nanoseconds, on average over what is owed: what a peer pays off makes the rest younger, and so does what comes in
        /// addition. One that reads slowly does not age, and one that reads nothing does.
        var owesSince: UInt64 = 0
        var isCrowded = false
        var isEvicted = false
        /// What the connection lets go of when it is asked to.
        var spare = 0
        var wasAsked = false
        var changed: @Sendable (Standing) -> Void
        var trim: @Sendable () -> Void

        /// Another thread may have looked at the clock later and come first.
        private func age(_ now: UInt64) -> UInt64 { now > owesSince ? now - owesSince : 0 }

        mutating func owe(_ bytes: Int, _ now: UInt64) {
            if min(bytes, owedByPeer) < MemoryBudget.smallDebt {
                owesSince = now
            } else if bytes != owedByPeer {
                let kept = Double(min(bytes, owedByPeer)) / Double(max(bytes, owedByPeer))
                owesSince = now - min(now, UInt64(Double(age(now)) * kept))
            }
            owedByPeer = bytes
        }

        /// How much the peer owes, for how long: a large document in transit weighs less than a small one that never ends. Time counts twice, so
        /// that one who makes progress with much stays before one who makes none with little.
        func weight(_ now: UInt64) -> Double {
            guard owedByPeer >= MemoryBudget.smallDebt else { return 0 }
            let seconds = 0.1 + Double(age(now)) / 1e9
            return Double(owedByPeer) * seconds * seconds
        }
    }

    struct State {
        fileprivate var holdings: [Int: Holding] = [:]
        fileprivate var last = 0
        var used = 0
        /// Of it, what connections hold that have to end: it goes when they have.
        fileprivate var leaving = 0
        /// The most since somebody asked.
        var highest = 0
        /// Connections that hold anything.
        fileprivate var holders = 0
        fileprivate var crowded: Set<Int> = []
        /// Connections whose peers owe something that counts: who may have to go.
        fileprivate var debtors: Set<Int> = []
        /// Connections with something to spare that were not asked for it.
        fileprivate var spares: Set<Int> = []
        /// What those that were asked will let go of.
        fileprivate var promised = 0
        /// What is reserved for work, of what is used.
        var reserved = 0
        var highestReserved = 0
        var waiters: [Waiter] = []
        /// What the process really takes, against what is counted.
        var observation = Observation()
    }

    typealias Call = (@Sendable (Standing) -> Void, Standing)

    /// `limits.memory`: bytes.
    public let limit: Int
    /// The clock that the ages of debts go by, and the waits for room.
    package let time: any TimeSource
    let resident: (@Sendable () -> Int)?
    let state = Mutex(State())

    /// - Parameter resident: what the process has in memory, in bytes; nil to trust what is counted alone (see ``Observation``).
    public init(limit: Int, time: any TimeSource = SystemTime(), resident: (@Sendable () -> Int)? = nil) {
        self.limit = limit
        self.time = time
        self.resident = resident
    }

    /// For tools that serve one connection of their own.
    public static let unlimited = MemoryBudget(limit: .max / 4)

    /// Bytes in use.
    public var used: Int { state.withLock { $0.used } }

    /// How many have a place in it.
    package var places: Int { state.withLock { $0.holdings.count } }

    /// The most that was in use since this was asked last.
    public func takeHighest() -> Int {
        state.withLock { state in
            defer { state.highest = state.used }
            return max(state.highest, state.used)
        }
    }

    /// Even with many connections each may hold this: less carries no message.
    private static let smallestShare = 16 << 10

    /// A place for one connection.
    ///
    /// - Parameters:
    ///   - trim: called likewise when the connection is to let go of what it has to spare.
    ///   - changed: called from any thread, without a lock, when others change how the connection stands.
    public func share(trim: @escaping @Sendable () -> Void = {}, changed: @escaping @Sendable (Standing) -> Void) -> Share {
        let number = state.withLock { state in
            state.last += 1
            state.holdings[state.last] = Holding(changed: changed, trim: trim)
            return state.last
        }
        return Share(self, number)
    }

    /// Below this a peer owes nothing worth counting.
    fileprivate static let smallDebt = 2 << 10

    private func set(_ number: Int, _ bytes: Int, owedByPeer: Int, spare: Int) -> Standing {
        let now = time.monotonicNanoseconds()
        let (standing, calls, trims) = state.withLock { state -> (Standing, [Call], [@Sendable () -> Void]) in
            guard var holding = state.holdings[number], !holding.isEvicted else { return (.evicted, [], []) }
            state.used += bytes - holding.bytes
            state.highest = max(state.highest, state.used)
            observe(&state)
            let (most, calm) = (most(state), calm(state))
            if holding.wasAsked { state.promised += spare - holding.spare }
            holding.spare = spare
            if spare == 0 { holding.wasAsked = false }
            if spare > 0, !holding.wasAsked { state.spares.insert(number) } else { state.spares.remove(number) }
            state.holders += (bytes > 0 ? 1 : 0) - (holding.bytes > 0 ? 1 : 0)
            holding.owe(owedByPeer, now)
            holding.bytes = bytes
            if owedByPeer >= Self.smallDebt { state.debtors.insert(number) } else { state.debtors.remove(number) }
            let fair = max(Self.smallestShare, most / max(1, state.holders))
            // At half of it: what is being read for it comes on top.
            holding.isCrowded = state.used > calm && bytes > fair / 2
            if holding.isCrowded { state.crowded.insert(number) } else { state.crowded.remove(number) }
            state.holdings[number] = holding
            var calls: [Call] = []
            let trims = state.used > calm ? askForSpares(&state) : []
            if state.used - state.promised - state.leaving > most { evict(&state, now, &calls) }
            if state.used <= calm { relieve(&state, except: number, &calls) }
            let after = state.holdings[number]
            return (after?.isEvicted ?? true ? .evicted : after?.isCrowded == true ? .crowded : .free, calls, trims)
        }
        for trim in trims { trim() }
        for (call, standing) in calls { call(standing) }
        return standing
    }

    /// Of the budget, what may be in use when a connection takes tools that it can do without.
    private var roomForTools: Int { limit / 2 }

    /// Whether there is room for tools of so many bytes, such as tables for compression. Where there is none, idle connections are asked
    /// for theirs, so that those who came first do not keep them for good.
    fileprivate func hasRoom(forTools bytes: Int) -> Bool {
        let (hasRoom, trims) = state.withLock { state in
            state.used + bytes <= roomForTools ? (true, []) : (false, askForSpares(&state))
        }
        for trim in trims { trim() }
        return hasRoom
    }

    /// What connections can do without goes before anybody does.
    private func askForSpares(_ state: inout State) -> [@Sendable () -> Void] {
        defer { state.spares = [] }
        return state.spares.sorted().compactMap { number in
            state.holdings[number]?.wasAsked = true
            state.promised += state.holdings[number]?.spare ?? 0
            return state.holdings[number]?.trim
        }
    }

    /// What a peer is about to make us hold: those that owe the most give way for it as they would if it were held already. For much of the budget not
    /// everybody has to go.
    func makeRoom(for bytes: Int) {
        let now = time.monotonicNanoseconds()
        let (calls, trims) = state.withLock { state -> ([Call], [@Sendable () -> Void]) in
            var calls: [Call] = []
            let trims = askForSpares(&state)
            evict(&state, now, for: min(bytes, most(state) / 4), &calls)
            return (calls, trims)
        }
        for trim in trims { trim() }
        for (call, standing) in calls { call(standing) }
    }

    /// Takes back what peers owe the most of, until the budget holds, and so much more.
    private func evict(_ state: inout State, _ now: UInt64, for room: Int = 0, _ calls: inout [Call]) {
        while state.used + room - state.promised - state.leaving > most(state) {
            // Only debtors are looked at: a budget that many honest connections use up would else cost each of them a look at all.
            let weights = state.debtors.map { (number: $0, weight: state.holdings[$0]?.weight(now) ?? 0) }
            let most = weights.max { ($0.weight, $1.number) < ($1.weight, $0.number) }
            guard let most, most.weight > 0, let holding = state.holdings[most.number] else { return }
            let number = most.number
            // Its memory is here until it has ended: others that took its place at once would be beside it.
            state.withdraw(holding, number)
            state.leaving += holding.bytes
            state.holdings[number]?.spare = 0
            state.holdings[number]?.wasAsked = false
            state.holdings[number]?.owedByPeer = 0
            state.holdings[number]?.isEvicted = true
            calls.append((holding.changed, .evicted))
        }
    }

    func relieve(_ state: inout State, except number: Int? = nil, _ calls: inout [Call]) {
        for other in state.crowded {
            state.holdings[other]?.isCrowded = false
            if other != number, let holding = state.holdings[other] { calls.append((holding.changed, .free)) }
        }
        state.crowded = []
    }

    private func remove(_ number: Int) {
        let calls = state.withLock { state -> [Call] in
            guard let holding = state.holdings.removeValue(forKey: number) else { return [] }
            state.forget(holding, number)
            var calls: [Call] = []
            if state.used <= calm(state) { relieve(&state, except: number, &calls) }
            return calls
        }
        for (call, standing) in calls { call(standing) }
    }

    /// Nobody can be asked for it any more: it goes by itself.
    fileprivate func end(_ number: Int, leaving bytes: Int) {
        let calls = state.withLock { state -> [Call] in
            guard let holding = state.holdings[number] else { return [] }
            state.forget(holding, number)
            state.holdings[number] = Holding(bytes: bytes, changed: { _ in }, trim: {})
            state.used += bytes
            state.highest = max(state.highest, state.used)
            if bytes > 0 { state.holders += 1 }
            var calls: [Call] = []
            if state.used <= calm(state) { relieve(&state, except: number, &calls) }
            return calls
        }
        for (call, standing) in calls { call(standing) }
    }

    /// One connection's place in the budget; it is given up when nobody holds it any more.
    public final class Share: Sendable {
        private let budget: MemoryBudget
        private let number: Int

        fileprivate init(_ budget: MemoryBudget, _ number: Int) {
            self.budget = budget
            self.number = number
        }

        deinit { budget.remove(number) }

        /// Says what the connection holds now.
        ///
        /// - Parameter owedByPeer: the part that only the peer can make go away.
        /// - Parameter spare: the part that the connection lets go of when it is asked to.
        public func hold(_ bytes: Int, owedByPeer: Int, spare: Int = 0) -> Standing {
            budget.set(number, bytes, owedByPeer: owedByPeer, spare: spare)
        }

        /// Whether the connection may take tools of so many bytes that it can do without; it says with the next ``hold(_:owedByPeer:spare:)``
        /// whether it took them.
        public func hasRoom(forTools bytes: Int) -> Bool { budget.hasRoom(forTools: bytes) }

        /// The connection is over.
        public func giveUp() { budget.remove(number) }

        /// The connection is over, but not what it has begun elsewhere: so much counts until nobody holds the share any more.
        public func end(leaving bytes: Int) { budget.end(number, leaving: bytes) }
    }
}

extension MemoryBudget.State {
    /// A connection is over.
    fileprivate mutating func forget(_ holding: MemoryBudget.Holding, _ number: Int) {
        used -= holding.bytes
        if holding.isEvicted { leaving -= holding.bytes } else { withdraw(holding, number) }
    }

    /// A connection is over, or has to be: nobody counts on it any more.
    fileprivate mutating func withdraw(_ holding: MemoryBudget.Holding, _ number: Int) {
        if holding.bytes > 0 { holders -= 1 }
        if holding.wasAsked { promised -= holding.spare }
        crowded.remove(number)
        spares.remove(number)
        debtors.remove(number)
    }
}
