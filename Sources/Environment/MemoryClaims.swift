import Synchronization

/// Memory for answers to our own requests. Only the peer knows how large its answer will be, so memory is claimed piece by piece while the answer
/// arrives, and while it is parsed.
///
/// Claims that grow share a quarter of the budget. Beyond that, one of them grows at a time, so that large answers follow each other instead of waiting
/// for one another's memory: the first of the peer whose turn it is. Peers take turns, however many requests each of them has to answer. That claim grows
/// whatever peers hold until all claims take three eighths of the budget. The others wait; while they do, their peers are not read, and answers that have
/// stopped arriving are given up. If there is no memory for the next one either, those that wait are refused, the last in line first.
extension MemoryBudget {
    /// Why a claim may not grow. Its request is aborted, and may be repeated later.
    public enum ClaimRefusal: Error, Equatable {
        /// There was no memory for it, for as long as a claim waits.
        case noMemory
        /// Others were waiting for it, and its answer arrived too slowly.
        case tooSlow
    }

    struct Claims {
        enum Phase {
            /// Its answer arrives.
            case arriving
            /// Its answer goes on arriving only when there is memory for it.
            case waiting
            /// It does not grow at the moment, so others may.
            case complete
            /// It does not grow, but has to be kept until something else has arrived.
            case kept
        }

        struct Entry {
            var bytes = 0
            var phase = Phase.arriving
            let claimant: Int
            let revocation: Revocation
            /// How much progress it has to make in every period, in bytes; nil: depending on what it holds.
            var least: Int?
            /// The start of the period in which its pace is measured, and how much had arrived by then.
            var since: UInt64
            var arrivedThen = 0

            var grows: Bool { phase == .arriving || phase == .waiting }
        }

        var entries: [Int: Entry] = [:]
        /// The places of claimants in line.
        var places: [Int: Int] = [:]
        var last = 0
        /// Of all claims together.
        var bytes = 0

        /// The one that may exceed the part of the budget that all of them share.
        var next: Int? {
            entries.lazy.filter { $0.value.grows && $0.value.revocation.refusal == nil }.min { isBefore($0, $1) }?.key
        }

        /// The order of the line.
        func isBefore(_ one: (key: Int, value: Entry), _ other: (key: Int, value: Entry)) -> Bool {
            (places[one.value.claimant] ?? .max, one.key) < (places[other.value.claimant] ?? .max, other.key)
        }

        /// A claimant has had its turn.
        mutating func moveToEnd(_ claimant: Int) {
            guard places[claimant] != nil else { return }
            last += 1
            places[claimant] = last
        }
    }

    /// Whether a claim may not grow any more, and what aborts its request.
    final class Revocation: Sendable {
        private let state = Atomic(0)
        /// How much has arrived, in bytes: of the answer, or of what it is kept for.
        fileprivate let arrived = Atomic(0)
        private let abort = Mutex<(@Sendable () -> Void)?>(nil)
        private let progress = Mutex<(@Sendable () -> Int)?>(nil)

        fileprivate func count(_ progress: @escaping @Sendable () -> Int) { self.progress.withLock { $0 = progress } }

        /// Bytes that count as progress.
        fileprivate var advanced: Int { progress.withLock { $0 }?() ?? arrived.load(ordering: .relaxed) }

        var refusal: ClaimRefusal? {
            switch state.load(ordering: .acquiring) {
            case 0: nil
            case 1: .tooSlow
            default: .noMemory
            }
        }

        fileprivate func revoke(_ refusal: ClaimRefusal) { state.store(refusal == .tooSlow ? 1 : 2, ordering: .releasing) }

        /// Must not be called under the budget's lock.
        func announce() { abort.withLock { $0 }?() }
        fileprivate func whenRevoked(_ abort: (@Sendable () -> Void)?) { self.abort.withLock { $0 = abort } }
    }

    /// A peer whose answers need memory. It has one place in line, and keeps it until one of its answers has had its turn or was given up as too slow.
    public final class Claimant: Sendable {
        fileprivate let budget: MemoryBudget
        fileprivate let number: Int

        fileprivate init(_ budget: MemoryBudget) {
            self.budget = budget
            number = budget.state.withLock { state in
                state.claims.last += 1
                state.claims.places[state.claims.last] = state.claims.last
                return state.claims.last
            }
        }

        deinit { budget.state.withLock { _ = $0.claims.places.removeValue(forKey: number) } }

        /// A claim for the next answer.
        public func claim() -> Claim { Claim(self) }
    }

    /// The memory of one answer. Released with its last reference, so on every path.
    public final class Claim: Sendable {
        private struct State {
            /// Its place in line, from the moment it claims anything.
            var number: Int?
            var granted = 0
            var isComplete = false
        }

        private let revocation = Revocation()
        private let claimant: Claimant
        private let state = Mutex(State())
        private var budget: MemoryBudget { claimant.budget }

        fileprivate init(_ claimant: Claimant) { self.claimant = claimant }

        deinit { if let number = state.withLock({ $0.number }) { budget.drop(claim: number) } }

        /// Claims memory for an answer of this size, as far as it is not granted yet. Calls must not overlap.
        ///
        /// - Throws: ``ClaimRefusal``; `CancellationError`.
        public func grow(to bytes: Int) async throws {
            if let refusal = revocation.refusal { throw refusal }
            revocation.arrived.store(bytes, ordering: .relaxed)
            let current = state.withLock { $0 }
            guard bytes > max(current.granted, MemoryBudget.unclaimedBytes) else { return }
            let number = current.number ?? budget.openClaim(revocation, claimant.number)
            state.withLock { $0.number = number }
            // Not for each piece: that would cost more than it is worth. What is complete grows once.
            let most = current.isComplete ? bytes : bytes + min(bytes / 4, MemoryBudget.claimStep)
            try await budget.grow(claim: number, to: most)
            if current.isComplete { budget.complete(claim: number, at: most) }
            state.withLock { $0.granted = most }
        }

        /// Why it may not grow any more; nil while it may.
        public var refusal: ClaimRefusal? { revocation.refusal }

        /// What aborts the request when the claim is revoked: without that, an answer that has stopped arriving would keep its memory. May be called on any
        /// thread.
        public func whenRevoked(_ abort: (@Sendable () -> Void)?) { revocation.whenRevoked(abort) }

        /// The answer has arrived: it holds this many bytes, no more than before. Others may grow in its place.
        public func complete(at bytes: Int) {
            let number = state.withLock { state in
                state.isComplete = true
                state.granted = min(state.granted, bytes)
                return state.number
            }
            if let number { budget.complete(claim: number, at: bytes) }
        }

        /// What is here is kept until something else has happened, such as that what it names has arrived. If others wait for the memory, and that is too
        /// slow, the claim is revoked.
        ///
        /// - Parameters:
        ///   - least: bytes of progress every five seconds; nil for the usual number.
        ///   - progress: bytes so far; nil if ``advance(by:)`` counts them. Called under the budget's lock.
        public func keep(atLeast least: Int? = nil, progress: (@Sendable () -> Int)? = nil) {
            guard let number = state.withLock({ $0.number }) else { return }
            if let progress { revocation.count(progress) }
            budget.keep(claim: number, atLeast: least)
        }

        /// This many more bytes of what it is kept for have arrived.
        public func advance(by bytes: Int) { revocation.arrived.wrappingAdd(bytes, ordering: .relaxed) }

        /// Nothing else has to happen any more.
        public func keepNoLonger() { if let number = state.withLock({ $0.number }) { budget.keepNoLonger(claim: number) } }
    }

    /// A place in line for the answers of one more peer.
    public func claimant() -> Claimant { Claimant(self) }

    /// Bytes that are claimed.
    public var claimed: Int { state.withLock { $0.claims.bytes } }

    /// Number of claims that wait for memory.
    package var waitingClaims: Int { state.withLock { $0.claims.entries.count { $0.value.phase == .waiting } } }

    /// Smaller answers claim nothing: they are part of what a connection costs.
    static let unclaimedBytes = 64 << 10
    private static let claimStep = 256 << 10

    /// What all claims share before one of them has to wait for its turn.
    private var sharedClaims: Int { limit / 4 }

    /// Milliseconds between two checks: few at first, since what others hold is mostly released soon.
    private static func pause(after waited: Int) -> Int { min(20, 1 + waited / 4) }
    /// Milliseconds after which the next claim in line has others evicted, is granted memory if there are no other claims, and is refused; and between two
    /// claims that are refused for its sake.
    private static let (evictingAfter, aloneAfter, longestOwnWait, refusingEvery) = (1_000, 2_000, 10_000, 500)
    /// Milliseconds after which a claim that waits for its turn is refused.
    private static let longestWait = 40_000
    /// While claims wait, each answer has to bring this much in every such period, in nanoseconds: more if it holds much.
    private static let paceNanoseconds: UInt64 = 5_000_000_000
    private static func leastProgress(holding bytes: Int) -> Int { max(8 << 10, bytes / 32) }
    /// What the next in line has to bring, which the others wait for.
    private var leastProgressOfNext: Int { limit / 128 }

    fileprivate func openClaim(_ revocation: Revocation, _ claimant: Int) -> Int {
        let now = time.monotonicNanoseconds()
        return state.withLock { state in
            state.claims.last += 1
            state.claims.entries[state.claims.last] = Claims.Entry(claimant: claimant, revocation: revocation, since: now)
            return state.claims.last
        }
    }

    private enum Turn {
        case granted, waits, isNext
        case revoked(ClaimRefusal)
    }

    fileprivate func grow(claim number: Int, to bytes: Int) async throws {
        var (waited, ownWait) = (0, 0)
        while true {
            let now = time.monotonicNanoseconds()
            let pause: Int
            var revoked: [Revocation] = []
            let turn = state.withLock { self.turn(of: number, bytes, now, mayBeAlone: ownWait >= Self.aloneAfter, &revoked, &$0) }
            for revocation in revoked { revocation.announce() }
            switch turn {
            case .granted: return
            case .revoked(let refusal): throw refusal
            case .isNext:
                guard ownWait < Self.longestOwnWait else { throw refuse(claim: number) }
                pause = Self.pause(after: ownWait)
                func passes(_ time: Int) -> Bool { ownWait / time < (ownWait + pause) / time }
                // Nobody is evicted for it while it waits for other claims.
                if ownWait < Self.evictingAfter, passes(Self.evictingAfter), isAlone(claim: number) { makeRoom(for: bytes) }
                if passes(Self.refusingEvery) { refuseLast(besides: number) }
                ownWait += pause
            case .waits:
                guard waited < Self.longestWait else { throw refuse(claim: number) }
                pause = Self.pause(after: waited)
                waited += pause
            }
            try await time.sleep(nanoseconds: UInt64(pause) * 1_000_000)
        }
    }

    private func isAlone(claim number: Int) -> Bool { state.withLock { $0.claims.bytes == $0.claims.entries[number]?.bytes ?? 0 } }

    /// It has waited for too long; what its peer is asked for next has its place in line.
    private func refuse(claim number: Int) -> ClaimRefusal {
        state.withLock { state in
            guard let revocation = state.claims.entries[number]?.revocation else { return .noMemory }
            if revocation.refusal == nil { revocation.revoke(.noMemory) }
            return revocation.refusal ?? .noMemory
        }
    }

    private func turn(of number: Int, _ bytes: Int, _ now: UInt64, mayBeAlone: Bool, _ revoked: inout [Revocation], _ state: inout State) -> Turn {
        guard let entry = state.claims.entries[number] else { return .revoked(.noMemory) }
        if let refusal = entry.revocation.refusal { return .revoked(refusal) }
        let more = bytes - entry.bytes
        state.claims.entries[number]?.phase = .waiting
        let fits = state.used + more <= evictionThreshold(state)
        let isShared = fits && state.claims.bytes + more <= sharedClaims
        if !isShared {
            // While it waits, its peer is not read.
            state.claims.entries[number]?.since = now
            judgePace(now, &revoked, &state)
            guard number == state.claims.next ?? number else { return .waits }
            // What peers hold is released soon, or they are evicted: only the largest answers wait for that.
            let isModest = state.claims.bytes + more <= limit / 8 * 3
            // If hardly anybody holds anything, there is nothing to wait for.
            let isAlone = state.claims.bytes == entry.bytes && (mayBeAlone || state.used - entry.bytes <= limit / 8)
            guard fits || isModest || isAlone else { return .isNext }
        }
        state.claims.entries[number]?.bytes = bytes
        state.claims.entries[number]?.phase = .arriving
        state.claims.bytes += more
        use(more, &state)
        observe(&state)
        return .granted
    }

    /// Somebody waits for memory: the answers for which others have claimed some have to arrive at a certain pace.
    func judgePace(_ now: UInt64, _ revoked: inout [Revocation], _ state: inout State) {
        let next = state.claims.next
        for (number, var entry) in state.claims.entries where entry.phase == .arriving || entry.phase == .kept {
            guard now >= entry.since + Self.paceNanoseconds else { continue }
            let least = entry.least ?? max(Self.leastProgress(holding: entry.bytes), number == next ? leastProgressOfNext : 0)
            let arrived = entry.revocation.advanced
            // More than one if nobody has waited meanwhile.
            let periods = Double(now - entry.since) / Double(Self.paceNanoseconds)
            if Double(arrived - entry.arrivedThen) < Double(least) * periods, entry.revocation.refusal == nil {
                entry.revocation.revoke(.tooSlow)
                revoked.append(entry.revocation)
                state.claims.moveToEnd(entry.claimant)
            }
            (entry.since, entry.arrivedThen) = (now, arrived)
            state.claims.entries[number] = entry
        }
    }

    /// For the next claim in line: of the others that wait, one gives up what it holds.
    private func refuseLast(besides number: Int) {
        let revoked = state.withLock { state in
            let others = state.claims.entries.filter { $0.key != number && $0.value.phase == .waiting && $0.value.bytes > 0 && $0.value.revocation.refusal == nil }
            let last = others.max { state.claims.isBefore($0, $1) }?.value.revocation
            last?.revoke(.noMemory)
            return last
        }
        revoked?.announce()
    }

    fileprivate func complete(claim number: Int, at bytes: Int) {
        release { state in
            guard var entry = state.claims.entries[number] else { return 0 }
            let less = max(0, entry.bytes - bytes)
            entry.phase = .complete
            entry.bytes -= less
            state.claims.entries[number] = entry
            state.claims.bytes -= less
            return less
        }
    }

    fileprivate func keep(claim number: Int, atLeast least: Int?) {
        let now = time.monotonicNanoseconds()
        state.withLock { state in
            guard var entry = state.claims.entries[number], !entry.grows else { return }
            (entry.phase, entry.least) = (.kept, least)
            (entry.since, entry.arrivedThen) = (now, entry.revocation.advanced)
            state.claims.entries[number] = entry
        }
    }

    fileprivate func keepNoLonger(claim number: Int) {
        state.withLock { state in
            if state.claims.entries[number]?.phase == .kept { state.claims.entries[number]?.phase = .complete }
        }
    }

    fileprivate func drop(claim number: Int) {
        release { state in
            guard let entry = state.claims.entries.removeValue(forKey: number) else { return 0 }
            // One that was refused for lack of memory keeps its place for the next attempt.
            if entry.revocation.refusal == nil { state.claims.moveToEnd(entry.claimant) }
            state.claims.bytes -= entry.bytes
            return entry.bytes
        }
    }
}
