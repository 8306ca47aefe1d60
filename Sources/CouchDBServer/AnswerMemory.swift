import Environment
import HTTPServer
import Synchronization

/// Accounts for the part of `limits.memory` that answers of a listener's CouchDB API use: a few requests at a time read documents, while there is
/// memory for them, and what was read counts until the client has received it.
///
/// If a request waits too long for memory, the answers whose clients have left the most unread for the longest are cut until there is enough; a client
/// that reads is done by then. If that is not enough for a request whose address holds no more than its share, connections of other addresses that hold
/// more than theirs are ended, whatever they are for. Memory for a request itself is owed by its client while there is something for the client to read, because it is held
/// until that is read. Otherwise it is not, however long it is held: feeds waiting for changes hold such memory, and so do requests waiting for memory.
/// If these use up all of it, further requests get a 503 and are asked to come back. Whoever needs little is served at once.
package final class AnswerMemory: Sendable {
    /// What became of somebody for lack of memory.
    package enum Shortage: Sendable {
        /// An answer of this many bytes was cut before its client had read it.
        case cut(bytes: Int)
        /// A request was refused.
        case refused
    }

    /// What a request may read now.
    private struct Grant {
        var bytes: Int
        /// Nil for a few bytes, for a request that is alone and needs no reservation, and while other work waits that could need all of the memory.
        var room: MemoryBudget.Reservation?
    }

    private let budget: MemoryBudget
    private let time: any TimeSource
    private let told: @Sendable (_ shortage: Shortage, _ origin: String) -> Void
    private let holdings = Mutex(AnswerHoldings())
    private let readers = Turnstile(CouchLimits.readers)
    private let matchers = Turnstile(CouchLimits.matchers)
    private let writers = Turnstile(CouchLimits.writers)
    private let largeWriters = Turnstile(1)

    /// - Parameter told: called with the address whose request, or answer, it was.
    package init(_ budget: MemoryBudget, time: any TimeSource, told: @escaping @Sendable (_ shortage: Shortage, _ origin: String) -> Void = { _, _ in }) {
        (self.budget, self.time, self.told) = (budget, time, told)
    }

    /// What one answer holds, including its request; released when nobody refers to it any more.
    final class Answer: Sendable {
        private struct Parts {
            var share: MemoryBudget.Share?
            /// Bytes that were read for the answer.
            var page = 0
            /// The part of these that is released when the client reads.
            var owed = 0
            /// Bytes of the parsed request. Released when the answer is complete.
            var question = 0
        }

        /// While it waits, nothing is lost if the budget ends it.
        private enum Standing {
            case works
            case waitsForMemory
            case waitsForChanges
        }

        private let memory: AnswerMemory
        fileprivate let origin: String
        private let parts = Mutex(Parts())
        private let end: @Sendable () -> Void
        private let isCut = Mutex(false)
        /// What was read for the answer last, however little of it counts. Apart from the parts, as the following.
        private let read = Mutex(0)
        /// Apart from the parts, because the budget ends other answers while these are locked.
        private let standing = Mutex(Standing.works)

        init(_ memory: AnswerMemory, of origin: String, cut: @escaping @Sendable () -> Void) {
            (self.memory, self.origin, end) = (memory, origin, cut)
        }

        deinit { memory.forget(ObjectIdentifier(self)) }

        /// The holdings and the budget may both find that it has to go.
        private func cut() {
            guard isCut.withLock({ isCut in
                defer { isCut = true }
                return !isCut
            }) else { return }
            switch standing.withLock({ $0 }) {
            case .works: memory.told(.cut(bytes: read.withLock { $0 }), origin)
            case .waitsForMemory: memory.told(.refused, origin)
            // The client of a feed has left nothing unread.
            case .waitsForChanges: break
            }
            end()
        }

        /// Reads at most the given number of bytes; `read` returns the actual number.
        ///
        /// - Throws: ``HTTPError`` 503 naming the limit, if there is no memory within `couchdb_answer_wait`; `CancellationError` if the client has
        ///   disconnected.
        func reading<Value: Sendable>(_ bytes: Int, _ read: () async throws -> (Value, bytes: Int)) async throws -> Value {
            try await reading(bytes, orFew: false) { _ in try await read() }
        }

        /// Reads at most the given number of bytes. `read` is passed the number that it may read, and returns the actual one.
        ///
        /// - Parameter orFew: without memory for all of it, to read ``CouchLimits/smallAnswer`` at once instead of waiting.
        /// - Throws: as ``reading(_:_:)``.
        func reading<Value: Sendable>(_ bytes: Int, orFew: Bool, _ read: (_ bytes: Int) async throws -> (Value, bytes: Int)) async throws -> Value {
            let grant = try await memory.begin(bytes, orFew: orFew, for: self, besideQuestions: true)
            defer { memory.readers.leave() }
            let (value, count) = try await read(grant.bytes)
            // Released before the actual size is counted: counting both might evict somebody.
            _ = consume grant
            hold(count)
            return value
        }

        /// Parses a request into values of the given size in memory, which are held until the answer is complete.
        ///
        /// - Throws: ``HTTPError`` 413 naming `limits.memory`, if it would take more than half of that; 503 as ``reading(_:_:)``.
        func asking<Value>(_ bytes: Int, _ read: () throws -> Value) async throws -> Value {
            guard bytes > CouchLimits.smallAnswer else { return try read() }
            guard bytes <= memory.budget.limit / 2 else {
                throw HTTPError(
                    413, "the request's values come to \(bytes) bytes in memory, more than half of limits.memory (\(memory.budget.limit)) of the agent that is asked: ask for fewer, or set "
                        + "limits: { memory: \(MemoryBudget.settingText(2 * bytes)) } or more there")
            }
            let grant = try await memory.begin(bytes, for: self, besideQuestions: false)
            defer { memory.readers.leave() }
            _ = consume grant
            reserveForRequest(bytes)
            return try read()
        }

        /// Reads documents and matches them with a selector when it is this answer's turn. Nothing may be written to the client meanwhile.
        func matching<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
            await memory.matchers.enter()
            defer { memory.matchers.leave() }
            try Task.checkCancellation()
            return try await body()
        }

        /// From now on the request itself takes this many bytes.
        func reserveForRequest(_ bytes: Int) { change { $0.question = bytes } }

        /// From now on the answer holds this many bytes.
        ///
        /// - Parameter isOwed: whether they are released when the client reads.
        /// - Parameter waitsForChanges: whether that is all that the answer does.
        func hold(_ bytes: Int, isOwed: Bool = true, waitsForChanges: Bool = false) {
            read.withLock { $0 = bytes }
            // A document larger than the budget is still read, alone.
            let bytes = min(bytes, memory.budget.mostForOne)
            standing.withLock { $0 = waitsForChanges ? .waitsForChanges : .works }
            change { ($0.page, $0.owed) = (bytes, isOwed ? bytes : 0) }
        }

        /// The answer starts or stops waiting for memory.
        fileprivate func waitForMemory(_ waits: Bool) {
            standing.withLock { $0 = waits ? .waitsForMemory : .works }
            if parts.withLock({ $0.share != nil }) { change { _ in } }
        }

        /// The client has taken this many bytes of what there is for it to read.
        func notePaid(_ bytes: Int) {
            guard let share = parts.withLock({ $0.owed > 0 ? $0.share : nil }) else { return }
            share.pay(bytes)
            memory.pay(ObjectIdentifier(self), bytes)
        }

        private func isQuiet(_ owed: Int) -> Bool { owed == 0 && standing.withLock { $0 != .works } }

        private func change(_ body: (inout Parts) -> Void) {
            let held = parts.withLock { parts -> (bytes: Int, owed: Int, question: Int)? in
                body(&parts)
                let bytes = parts.page + parts.question
                // The request's own memory is held until the client has read the rest.
                let owed = parts.owed > 0 ? parts.owed + parts.question : 0
                if parts.share == nil {
                    // Most answers are this small, and not worth counting.
                    guard bytes > CouchLimits.smallAnswer else { return nil }
                    parts.share = memory.budget.register(origin: origin) { [weak self] standing in if standing == .evicted { self?.cut() } }
                }
                if parts.share?.hold(bytes, owedByPeer: owed, isQuiet: isQuiet(owed)) == .evicted { cut() }
                return (bytes, owed, parts.question)
            }
            guard let (bytes, owed, question) = held else { return }
            let now = memory.time.monotonicNanoseconds()
            let new = AnswerHoldings.Held(origin: origin, bytes: bytes, owed: owed, question: question, cut: { [weak self] in self?.cut() })
            memory.holdings.withLock { $0.note(ObjectIdentifier(self), new, now) }
        }
    }

    /// Compresses an answer, for as long as its client takes to read it; nil if there is no memory for that: the answer is then sent uncompressed.
    func packer() -> Gzip? { budget.lend(Gzip.memory).flatMap { Gzip($0) } }

    /// Parses and stores a request's documents, which takes several copies of them in memory, when it is this request's turn. Must not wait for more
    /// of the request meanwhile.
    func writing<Value>(_ bytes: Int, _ body: () async throws -> Value) async throws -> Value {
        guard bytes > CouchLimits.smallWrite else { return try await body() }
        let isLarge = bytes > CouchLimits.largeWrite
        if isLarge { await largeWriters.enter() }
        defer { if isLarge { largeWriters.leave() } }
        await writers.enter()
        defer { writers.leave() }
        try Task.checkCancellation()
        // The parsed values count in addition to the text, but only up to a bound that leaves memory for others.
        let copies = isLarge ? budget.register { _ in } : nil
        _ = copies?.hold(min(bytes, budget.limit / 8), owedByPeer: 0)
        defer { copies?.giveUp() }
        return try await body()
    }

    /// - Parameters:
    ///   - origin: the client's address, for limits on one address.
    ///   - cut: ends the answer before its client has read it.
    func answer(of origin: String = "", cut: @escaping @Sendable () -> Void) -> Answer { Answer(self, of: origin, cut: cut) }

    /// - Parameters:
    ///   - orFew: without memory for all of it, to grant ``CouchLimits/smallAnswer`` at once.
    ///   - besideQuestions: do not wait for the memory of other requests themselves if no answer is being read: those would not release it before they
    ///     are answered.
    private func begin(_ bytes: Int, orFew: Bool = false, for answer: Answer, besideQuestions: Bool) async throws -> Grant {
        let (key, origin) = (ObjectIdentifier(answer), answer.origin)
        let start = time.monotonicNanoseconds()
        var waits = false
        defer {
            holdings.withLock { $0.stopWaiting(key) }
            if waits { answer.waitForMemory(false) }
        }
        while true {
            await readers.enter()
            if Task.isCancelled {
                readers.leave()
                throw CancellationError()
            }
            // What is not worth counting is not worth waiting for, either.
            if bytes <= CouchLimits.smallAnswer { return Grant(bytes: bytes) }
            let (now, share) = (time.monotonicNanoseconds(), addressShare)
            // Memory that the answer itself holds is no reason to wait.
            let (isAlone, givesWay) = holdings.withLock { holdings in
                (holdings.isAlone(key, besideQuestions: besideQuestions, now), holdings.givesWay(key, of: origin, for: bytes, share: share))
            }
            // If no client can release anything, the one that waits gains nothing from it: memory of requests is released once these are answered.
            if !givesWay || isAlone {
                if let grant = grant(bytes, of: origin) { return grant }
                if isAlone { return Grant(bytes: bytes) }
            }
            if orFew { return Grant(bytes: CouchLimits.smallAnswer) }
            readers.leave()
            let waited = now - start
            guard waited < CouchLimits.answerWait * 1_000_000 else {
                told(.refused, origin)
                throw HTTPError(
                    503, "requests and answers that clients have not read leave no room in limits.memory (\(budget.limit) bytes)", headers: ["Retry-After": "5"])
            }
            cutDebtors(for: bytes, of: answer, waited: waited)
            if !waits { answer.waitForMemory(true) }
            waits = true
            try await time.sleep(nanoseconds: 50_000_000)
        }
    }

    /// What answers to one address may take up while requests of others wait.
    private var addressShare: Int { budget.unrestricted / CouchLimits.addressShare }

    /// Whether an address that reads this many bytes holds no more than its share with them. Such requests do not wait until there are no restrictions:
    /// other addresses could keep the memory between that and the point above which somebody is evicted for as long as they like.
    private func isModest(_ bytes: Int, of origin: String) -> Bool {
        budget.sums(of: origin).bytes + bytes <= min(addressShare, budget.share(for: origin))
    }

    /// Nil without memory.
    private func grant(_ bytes: Int, of origin: String) -> Grant? {
        let isModest = isModest(bytes, of: origin)
        if budget.isAwaited { return (isModest ? budget.fits(bytes) : budget.hasRoom(for: bytes)) ? Grant(bytes: bytes) : nil }
        guard let room = budget.reserveWithoutEviction(bytes, despiteRestrictions: isModest) else { return nil }
        return Grant(bytes: bytes, room: room)
    }

    /// Cuts answers that their clients do not read, until a request that waits has what it needs. If that is not enough for a request whose address is
    /// content with its share, connections of any kind go whose addresses hold more than theirs.
    private func cutDebtors(for bytes: Int, of answer: Answer, waited: UInt64) {
        let (now, share, isModest) = (time.monotonicNanoseconds(), addressShare, isModest(bytes, of: answer.origin))
        let lacking = budget.shortfall(for: bytes, despiteRestrictions: isModest)
        let (cut, coming) = holdings.withLock { holdings -> ([AnswerHoldings.Held], Int) in
            holdings.wait(ObjectIdentifier(answer), of: answer.origin, for: bytes)
            let cut = holdings.cutting(for: ObjectIdentifier(answer), lacking: lacking, waited: waited, share: share, now)
            return (cut, holdings.stillLeaving(now))
        }
        for debtor in cut { debtor.cut() }
        guard isModest, waited > CouchLimits.answerHaste * 1_000_000, coming < lacking else { return }
        budget.makeRoom(for: bytes - coming, of: answer.origin)
    }

    private func pay(_ answer: ObjectIdentifier, _ bytes: Int) {
        let now = time.monotonicNanoseconds()
        holdings.withLock { $0.pay(answer, bytes, now) }
    }

    private func forget(_ answer: ObjectIdentifier) { holdings.withLock { $0.forget(answer) } }
}
