import Environment

/// What the answers of a listener hold, which requests wait for memory, and whose answers are cut for them.
///
/// Answers are cut when their clients do not read them. A client that takes part of an answer makes its debt younger by that part, so that one that
/// reads slowly is not taken for one that reads nothing. A request is held until its whole answer has been read, so one page of that makes it no younger
/// than it pays for: otherwise a client could hold a large request for as long as it likes by reading a little each second.
struct AnswerHoldings {
    struct Held {
        /// Of the client, for limits on one address.
        var origin: String
        /// What the answer and its request take up.
        var bytes: Int
        /// The part that only the client can release, by reading: all of it while there is something to read, otherwise nothing.
        var owed: Int
        /// The part that the request itself takes up.
        var question: Int
        var cut: @Sendable () -> Void

        /// For how long this had been owed on average when it was last noted or paid for, and when that was, in monotonic nanoseconds.
        fileprivate var noted: (age: UInt64, at: UInt64) = (0, 0)

        init(origin: String, bytes: Int, owed: Int, question: Int, cut: @escaping @Sendable () -> Void) {
            (self.origin, self.bytes, self.owed, self.question, self.cut) = (origin, bytes, owed, question, cut)
        }

        /// While there is nothing to read, nothing grows older. Another thread may have read the clock later and been processed first.
        fileprivate func age(_ now: UInt64) -> UInt64 { noted.age + (owed > 0 && now > noted.at ? now - noted.at : 0) }

        /// Its client cannot be reading it.
        fileprivate func isStale(_ now: UInt64) -> Bool { age(now) > CouchLimits.answerForbearance * 1_000_000 }

        fileprivate func weight(_ now: UInt64) -> Double { Double(owed) * Double(age(now)) }

        /// This much of what was owed is still owed, and the rest is new or paid for.
        fileprivate mutating func note(age: UInt64, kept part: Double, _ now: UInt64) { noted = (UInt64(Double(age) * part), now) }
    }

    private struct Waiting {
        var origin: String
        var bytes: Int
    }

    private struct Leaving {
        var bytes: Int
        var since: UInt64
    }

    private var held: [ObjectIdentifier: Held] = [:]
    /// What each address holds. Counted as it changes: hundreds may wait, and each of them asks twenty times a second.
    private var sums: [String: Int] = [:]
    private var waiting: [ObjectIdentifier: Waiting] = [:]
    /// What each address waits for.
    private var awaited: [String: Int] = [:]
    /// Answers that were cut, whose memory is released when their connections are closed.
    private var leaving: [ObjectIdentifier: Leaving] = [:]

    mutating func note(_ answer: ObjectIdentifier, _ new: Held, _ now: UInt64) {
        // Its connection is being closed, so it must not be cut, nor counted, a second time.
        guard leaving[answer] == nil, new.bytes > 0 else { return set(answer, nil) }
        var new = new
        let old = held[answer]
        let (kept, all) = (min(old?.question ?? 0, new.question), max(new.owed, new.question))
        new.note(age: old?.age(now) ?? 0, kept: all > 0 ? Double(kept) / Double(all) : 0, now)
        set(answer, new)
    }

    private mutating func set(_ answer: ObjectIdentifier, _ new: Held?) {
        if let old = held[answer] { Self.add(-old.bytes, old.origin, &sums) }
        if let new { Self.add(new.bytes, new.origin, &sums) }
        held[answer] = new
    }

    private mutating func setWaiting(_ answer: ObjectIdentifier, _ new: Waiting?) {
        if let old = waiting[answer] { Self.add(-old.bytes, old.origin, &awaited) }
        if let new { Self.add(new.bytes, new.origin, &awaited) }
        waiting[answer] = new
    }

    /// An address with nothing is not remembered: there may be any number of them, one after the other.
    private static func add(_ bytes: Int, _ origin: String, _ sums: inout [String: Int]) {
        let sum = sums[origin, default: 0] + bytes
        sums[origin] = sum > 0 ? sum : nil
    }

    /// The client has taken this many bytes.
    mutating func pay(_ answer: ObjectIdentifier, _ bytes: Int, _ now: UInt64) {
        guard let found = held[answer], found.owed > 0 else { return }
        held[answer]?.note(age: found.age(now), kept: 1 - min(1, Double(bytes) / Double(found.owed)), now)
    }

    mutating func forget(_ answer: ObjectIdentifier) {
        set(answer, nil)
        setWaiting(answer, nil)
        leaving[answer] = nil
    }

    // MARK: - Requests that wait

    mutating func wait(_ answer: ObjectIdentifier, of origin: String, for bytes: Int) { setWaiting(answer, Waiting(origin: origin, bytes: bytes)) }

    mutating func stopWaiting(_ answer: ObjectIdentifier) { setWaiting(answer, nil) }

    /// Whether no other answer holds anything that its client could release, so that there is nothing to wait for.
    ///
    /// - Parameter besideQuestions: whether other requests themselves do not matter.
    func isAlone(_ answer: ObjectIdentifier, besideQuestions: Bool, _ now: UInt64) -> Bool {
        held.allSatisfy { key, held in key == answer || held.owed == 0 && (besideQuestions || held.question == 0) } && stillLeaving(now) == 0
    }

    /// Whether a request lets others go first: its address holds and wants more than its share, and one that is content with its share waits.
    ///
    /// - Parameter share: what one address may hold while others wait.
    func givesWay(_ answer: ObjectIdentifier, of origin: String, for bytes: Int, share: Int) -> Bool {
        let own = wants(origin) + (waiting[answer] == nil ? bytes : 0)
        return own > share && awaited.keys.contains { $0 != origin && wants($0) <= share }
    }

    /// What an address holds and waits for.
    private func wants(_ origin: String) -> Int { sums[origin, default: 0] + awaited[origin, default: 0] }

    /// Memory of answers that were cut just now. One whose memory is not released soon no longer counts: others are then cut instead.
    func stillLeaving(_ now: UInt64) -> Int {
        leaving.values.reduce(0) { $0 + (now < $1.since + CouchLimits.answerHaste * 1_000_000 ? $1.bytes : 0) }
    }

    /// The answers to cut for a request, as many as it takes: those that have been owed the most for the longest, and first those of the address that
    /// owes the most together, if it holds too much. Their memory is released when their connections are closed.
    ///
    /// - Parameters:
    ///   - lacking: the bytes that it lacks.
    ///   - waited: for how long it has waited, in nanoseconds.
    ///   - share: what one address may hold while others wait.
    mutating func cutting(for answer: ObjectIdentifier, lacking: Int, waited: UInt64, share: Int, _ now: UInt64) -> [Held] {
        var lacking = lacking - stillLeaving(now)
        guard lacking > 0, waited > CouchLimits.answerHaste * 1_000_000, let request = waiting[answer] else { return [] }
        var chosen: [Held] = []
        let isModest = wants(request.origin) <= share
        let isDue = { (holdings: AnswerHoldings, debtor: Held) in
            holdings.isDue(debtor, for: request, isModest: isModest, waited: waited, share: share, now)
        }
        var due = candidates(but: answer, now).filter { isDue(self, $0.held) }
        while lacking > 0, let candidate = first(of: due, share) {
            due.removeAll { $0.answer == candidate.answer }
            let debtor = candidate.held
            // Its address may hold less by now than it did.
            guard isDue(self, debtor) else { continue }
            set(candidate.answer, nil)
            leaving[candidate.answer] = Leaving(bytes: debtor.bytes, since: now)
            lacking -= debtor.bytes
            chosen.append(debtor)
        }
        return chosen
    }

    /// Whether an answer may be cut for a request.
    ///
    /// - Parameter isModest: whether the request's address is content with its share, with all that it waits for.
    private func isDue(_ debtor: Held, for request: Waiting, isModest: Bool, waited: UInt64, share: Int, _ now: UInt64) -> Bool {
        func isOlder(_ milliseconds: UInt64) -> Bool { debtor.age(now) > milliseconds * 1_000_000 }
        let isOther = debtor.origin != request.origin
        let holdsTooMuch = sums[debtor.origin, default: 0] > share
        if isModest, isOther, holdsTooMuch { return isOlder(CouchLimits.answerHaste) }
        guard waited > CouchLimits.answerPatience * 1_000_000 else { return false }
        // One that asks for more than its share does not drive out slow readers that are content with theirs.
        let asksTooMuch = sums[request.origin, default: 0] + request.bytes > share
        return isOlder(asksTooMuch && isOther && !holdsTooMuch ? CouchLimits.answerForbearance : CouchLimits.answerPatience)
    }

    private struct Candidate {
        var answer: ObjectIdentifier
        var held: Held
        /// The request itself waits for memory, so that its client cannot read on.
        var waits: Bool
        var weight: Double
        var isStale: Bool
    }

    /// The one to cut next, of candidates in the order in which they would go without regard to their addresses.
    private func first(of candidates: [Candidate], _ share: Int) -> Candidate? {
        guard let first = candidates.first else { return nil }
        let alike = candidates.prefix(while: { $0.waits == first.waits })
        // Of many addresses each may hold less than of a few.
        let most = share * CouchLimits.addressShare / max(CouchLimits.addressShare, Set(alike.map(\.held.origin)).count)
        return MemoryBudget.accused(
            Array(alike), origin: { $0.held.origin }, weight: { $0.weight }, isStale: { $0.isStale }, owesTooMuch: { sums[$0, default: 0] > most }
        ).first
    }

    /// The answers whose clients have owed something for a while, the first ones to cut first.
    private func candidates(but answer: ObjectIdentifier, _ now: UInt64) -> [Candidate] {
        let debtors = held.filter { key, held in key != answer && held.owed > 0 && held.age(now) > CouchLimits.answerHaste * 1_000_000 }
        let all = debtors.map { key, held in
            Candidate(answer: key, held: held, waits: waiting[key] != nil, weight: held.weight(now), isStale: held.isStale(now))
        }
        return all.sorted { first, second in first.waits == second.waits ? first.weight > second.weight : second.waits }
    }
}
