import Synchronization

/// How much memory an agent may hold on behalf of its peers, over all connections: incomplete messages, waiting lists and revisions, unread replies,
/// bodies of requests.
///
/// Back-pressure comes first: above three quarters of the budget (if the process is observed: at most five eighths, less what is not counted), connections
/// that hold more than their fair share are asked to take no more, where each origin has a share that its connections divide among them. If the budget is used up nevertheless, the connection is evicted whose peer has made
/// us hold the most for the longest time without progress: if one origin owes more than its fair share, and the most of all, that connection is one of
/// its own, unless another has made no progress for ten seconds and weighs more than all of these. If most of the budget is held for quiet peers, and
/// little is owed, one of the quiet ones goes instead. If only peers that have just begun to owe something owe any, and their origins hold no more than
/// their share, a connection of an address that holds more goes, whether it owes anything or not.
public final class MemoryBudget: Sendable {
    /// The standing of a connection in the budget.
    public enum Standing: Sendable, Equatable {
        case free
        /// No more may be accepted from the peer, or read for it, until the existing data is processed.
        case crowded
        /// The connection has to end.
        case evicted
    }

    /// What one connection holds.
    struct Holding {
        /// With whose connections it counts.
        var origin: Origin
        var bytes = 0
        /// The part that only the peer can clear: messages it has not completed, replies it has not read.
        var owedByPeer = 0
        /// The average time since when it is owed, in nanoseconds: each payment by the peer makes the rest younger, and so does an addition. The debt
        /// of a slow reader does not age, while that of a peer that reads nothing does.
        var owesSince: UInt64 = 0
        /// Since when the connection has been quiet, in monotonic nanoseconds; nil while it is not, or holds little.
        var quietSince: UInt64?
        /// What it then holds, apart from what it can spare.
        var quietBytes = 0
        var isCrowded = false
        var isEvicted = false
        /// The connection has ended, and what it left behind is released without anybody's doing.
        var isEnding = false
        /// The part that the connection releases on request.
        var spare = 0
        var wasAsked = false
        var changed: @Sendable (Standing) -> Void
        var trim: @Sendable () -> Void

        /// What it adds to the sums of its origin.
        var load: Load { Load(bytes: bytes, owed: owedByPeer >= MemoryBudget.smallDebt ? owedByPeer : 0) }

        /// Another thread may have read the clock later and been processed first.
        func age(_ now: UInt64) -> UInt64 { now > owesSince ? now - owesSince : 0 }

        mutating func owe(_ bytes: Int, _ now: UInt64) {
            if min(bytes, owedByPeer) < MemoryBudget.smallDebt {
                owesSince = now
            } else if bytes != owedByPeer {
                let kept = Double(min(bytes, owedByPeer)) / Double(max(bytes, owedByPeer))
                owesSince = now - min(now, UInt64(Double(age(now)) * kept))
            }
            owedByPeer = bytes
        }

        /// The peer has taken this many bytes, of which the ones that it owes are a part.
        mutating func pay(_ bytes: Int, _ now: UInt64) {
            guard owedByPeer > 0 else { return }
            let kept = 1 - min(1, Double(bytes) / Double(owedByPeer))
            owesSince = now - min(now, UInt64(Double(age(now)) * kept))
        }

        /// How much the peer owes, and for how long: a large document in transit weighs less than a small one that never ends. Time counts squared,
        /// so that a peer that makes progress with much stays rather than one that makes none with little.
        func weight(_ now: UInt64) -> Double {
            guard owedByPeer >= MemoryBudget.smallDebt else { return 0 }
            let seconds = 0.1 + Double(age(now)) / 1e9
            return Double(owedByPeer) * seconds * seconds
        }
    }

    struct State {
        var holdings: [Int: Holding] = [:]
        fileprivate var last = 0
        var used = 0
        /// The part of it held by connections that have to end, or have ended and left it behind: it is released soon.
        var leaving = 0
        /// The maximum since it was last queried.
        var highest = 0
        /// What the connections of each origin hold and owe together.
        var origins = Origins()
        fileprivate var crowded: Set<Int> = []
        /// Connections whose peers owe a significant amount: the candidates for eviction.
        var debtors: Set<Int> = []
        /// Connections that hold much although nothing happens on them, and what they hold together.
        var quiet: Set<Int> = []
        var quietBytes = 0
        /// Connections with something to spare that have not been asked for it.
        fileprivate var spares: Set<Int> = []
        /// What the connections that were asked will release.
        var promised = 0
        /// The part of the used memory that is reserved for work.
        var reserved = 0
        var highestReserved = 0
        /// The part that peers decide how long to keep.
        var lent = 0
        var waiters: [Waiter] = []
        /// Memory of answers to our own requests.
        var claims = Claims()
        /// Number of feeds that are read.
        var feeds = 0
        /// The memory the process actually uses, compared with what is counted.
        var observation = Observation()
    }

    typealias Call = (@Sendable (Standing) -> Void, Standing)

    /// `limits.memory`, in bytes.
    public let limit: Int
    /// The clock for the age of debts, and for waits for memory.
    package let time: any TimeSource
    let processMemory: (@Sendable () -> Int)?
    let state = Mutex(State())

    /// - Parameter processMemory: returns the memory that the process has allocated, in bytes, without pages of files; nil to rely on counting alone (see
    ///   ``Observation``).
    public init(limit: Int, time: any TimeSource = SystemTime(), processMemory: (@Sendable () -> Int)? = nil) {
        self.limit = limit
        self.time = time
        self.processMemory = processMemory
    }

    /// For tools that serve a single connection of their own.
    public static let unlimited = MemoryBudget(limit: .max / 4)

    /// Bytes in use.
    public var used: Int { state.withLock { $0.used } }

    /// Number of places in it.
    package var places: Int { state.withLock { $0.holdings.count } }

    /// The maximum in use since the last call.
    public func takeHighest() -> Int {
        state.withLock { state in
            defer { state.highest = state.used }
            return max(state.highest, state.used)
        }
    }

    /// Each connection may hold this much, however many there are: with less, it could not transfer any message.
    static let smallestShare = 16 << 10

    /// Registers a connection, and returns its place in the budget.
    ///
    /// - Parameters:
    ///   - origin: the address of its peer, without a port, with whose other connections it counts; nil if it counts with no other.
    ///   - trim: called in the same way as `changed` when the connection should release what it can spare.
    ///   - changed: called on any thread, without a lock, when others change the connection's standing.
    public func register(
        origin: String? = nil, trim: @escaping @Sendable () -> Void = {}, changed: @escaping @Sendable (Standing) -> Void
    ) -> Share {
        let number = state.withLock { state in
            state.last += 1
            state.holdings[state.last] = Holding(origin: origin.map(Origin.address) ?? .own(state.last), changed: changed, trim: trim)
            return state.last
        }
        return Share(self, number)
    }

    /// A smaller debt does not count.
    static let smallDebt = 2 << 10

    /// A quiet connection with less than this is not worth ending: a new one in its place would hold almost as much.
    private static let smallestQuiet = 48 << 10

    private func set(_ number: Int, _ bytes: Int, owedByPeer: Int, spare: Int, isQuiet: Bool) -> Standing {
        let now = time.monotonicNanoseconds()
        let (standing, calls, trims) = state.withLock { state -> (Standing, [Call], [@Sendable () -> Void]) in
            guard var holding = state.holdings[number], !holding.isEvicted, !holding.isEnding else { return (.evicted, [], []) }
            state.used += bytes - holding.bytes
            state.highest = max(state.highest, state.used)
            observe(&state)
            let (evictionThreshold, restrictionThreshold) = (evictionThreshold(state), restrictionThreshold(state))
            if holding.wasAsked { state.promised += spare - holding.spare }
            holding.spare = spare
            if spare == 0 { holding.wasAsked = false }
            if spare > 0, !holding.wasAsked { state.spares.insert(number) } else { state.spares.remove(number) }
            let old = holding.load
            holding.owe(owedByPeer, now)
            holding.bytes = bytes
            state.origins.change(holding.origin, from: old, to: holding.load)
            let isQuiet = isQuiet && bytes - spare >= Self.smallestQuiet
            let quietBytes = isQuiet ? bytes - spare : 0
            state.quietBytes += quietBytes - holding.quietBytes
            (holding.quietBytes, holding.quietSince) = (quietBytes, isQuiet ? holding.quietSince ?? now : nil)
            if isQuiet { state.quiet.insert(number) } else { state.quiet.remove(number) }
            if owedByPeer >= Self.smallDebt { state.debtors.insert(number) } else { state.debtors.remove(number) }
            holding.isCrowded = state.used > restrictionThreshold && state.origins.isCrowded(holding.origin, bytes, most: evictionThreshold)
            if holding.isCrowded { state.crowded.insert(number) } else { state.crowded.remove(number) }
            state.holdings[number] = holding
            var calls: [Call] = []
            let trims = state.used > restrictionThreshold ? requestSpareMemory(&state) : []
            if state.used - state.promised - state.leaving > evictionThreshold { evict(&state, now, &calls) }
            if state.used <= restrictionThreshold { relieve(&state, except: number, &calls) }
            let after = state.holdings[number]
            return (after?.isEvicted ?? true ? .evicted : after?.isCrowded == true ? .crowded : .free, calls, trims)
        }
        for trim in trims { trim() }
        for (call, standing) in calls { call(standing) }
        return standing
    }

    private func pay(_ number: Int, _ bytes: Int) {
        let now = time.monotonicNanoseconds()
        state.withLock { $0.holdings[number]?.pay(bytes, now) }
    }

    /// How much of the budget may be in use when a connection allocates optional tools.
    private var toolMemoryThreshold: Int { limit / 2 }

    /// Whether there is memory for tools of this size, such as compression tables. If not, idle connections are asked to release theirs, so that
    /// early ones do not keep them forever.
    fileprivate func hasRoom(forTools bytes: Int) -> Bool {
        let (hasRoom, trims) = state.withLock { state in
            state.used + bytes <= toolMemoryThreshold ? (true, []) : (false, requestSpareMemory(&state))
        }
        for trim in trims { trim() }
        return hasRoom
    }

    /// What connections can spare is released before any of them is evicted.
    func requestSpareMemory(_ state: inout State) -> [@Sendable () -> Void] {
        defer { state.spares = [] }
        return state.spares.sorted().compactMap { number in
            state.holdings[number]?.wasAsked = true
            state.promised += state.holdings[number]?.spare ?? 0
            return state.holdings[number]?.trim
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
            if state.used <= restrictionThreshold(state) { relieve(&state, except: number, &calls) }
            return calls
        }
        for (call, standing) in calls { call(standing) }
    }

    /// It can no longer be asked to release it: it ends by itself.
    fileprivate func end(_ number: Int, leaving bytes: Int) {
        let calls = state.withLock { state -> [Call] in
            guard let holding = state.holdings[number] else { return [] }
            state.forget(holding, number)
            var left = Holding(origin: holding.origin, bytes: bytes, changed: { _ in }, trim: {})
            left.isEnding = true
            state.leaving += bytes
            state.holdings[number] = left
            state.origins.change(left.origin, from: .nothing, to: left.load)
            state.used += bytes
            state.highest = max(state.highest, state.used)
            var calls: [Call] = []
            if state.used <= restrictionThreshold(state) { relieve(&state, except: number, &calls) }
            return calls
        }
        for (call, standing) in calls { call(standing) }
    }

    /// One connection's place in the budget; given up with its last reference.
    public final class Share: Sendable {
        private let budget: MemoryBudget
        private let number: Int

        fileprivate init(_ budget: MemoryBudget, _ number: Int) {
            self.budget = budget
            self.number = number
        }

        deinit { budget.remove(number) }

        /// Reports what the connection holds.
        ///
        /// - Parameter owedByPeer: the part that only the peer can clear.
        /// - Parameter spare: the part that the connection releases on request.
        /// - Parameter isQuiet: no work is in progress on the connection, so that ending it loses none.
        public func hold(_ bytes: Int, owedByPeer: Int, spare: Int = 0, isQuiet: Bool = false) -> Standing {
            budget.set(number, bytes, owedByPeer: owedByPeer, spare: spare, isQuiet: isQuiet)
        }

        /// The peer has taken this many bytes, although what the connection holds stays the same: what it owes becomes younger.
        public func pay(_ bytes: Int) { budget.pay(number, bytes) }

        /// Whether the connection may allocate optional tools of this size; its next ``hold(_:owedByPeer:spare:)`` says whether it did.
        public func hasRoom(forTools bytes: Int) -> Bool { budget.hasRoom(forTools: bytes) }

        /// The connection has ended.
        public func giveUp() { budget.remove(number) }

        /// The connection has ended, but not the work it started elsewhere: this many bytes count until the last reference to the share is released.
        public func end(leaving bytes: Int) { budget.end(number, leaving: bytes) }
    }
}

extension MemoryBudget.State {
    /// A connection has ended.
    fileprivate mutating func forget(_ holding: MemoryBudget.Holding, _ number: Int) {
        used -= holding.bytes
        if holding.isEvicted || holding.isEnding { leaving -= holding.bytes }
        if !holding.isEvicted { withdraw(holding, number) }
    }

    /// A connection has ended, or has to: it is no longer counted on.
    mutating func withdraw(_ holding: MemoryBudget.Holding, _ number: Int) {
        origins.change(holding.origin, from: holding.load, to: .nothing)
        if holding.wasAsked { promised -= holding.spare }
        crowded.remove(number)
        spares.remove(number)
        debtors.remove(number)
        if quiet.remove(number) != nil { quietBytes -= holding.quietBytes }
    }
}
