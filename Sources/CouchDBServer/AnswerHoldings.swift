/// What the answers of a listener hold, which requests wait for memory, and whose answers are cut for them.
///
/// Answers are cut when their clients do not read them. A client that takes part of an answer makes its debt younger by that part, so that one that
/// reads slowly is not taken for one that reads nothing.
struct AnswerHoldings {
    struct Held {
        /// Of the client, for limits on one address.
        var origin: String
        /// What the answer and its request take up.
        var bytes: Int
        /// The part that only the client can release, by reading: all of it while there is something to read, otherwise nothing.
        var owed: Int
        /// The request itself takes up memory.
        var hasQuestion: Bool
        /// Since when this is owed on average, in monotonic nanoseconds.
        var since: UInt64
        var cut: @Sendable () -> Void

        /// Another thread may have read the clock later and been processed first.
        fileprivate func age(_ now: UInt64) -> UInt64 { now > since ? now - since : 0 }

        fileprivate func weight(_ now: UInt64) -> Double { Double(owed) * Double(age(now)) }
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
    private var waiting: [ObjectIdentifier: Waiting] = [:]
    /// Answers that were cut, whose memory is released when their connections are closed.
    private var leaving: [ObjectIdentifier: Leaving] = [:]

    mutating func note(_ answer: ObjectIdentifier, _ new: Held) { held[answer] = new.bytes > 0 ? new : nil }

    /// The client has taken this many bytes.
    mutating func pay(_ answer: ObjectIdentifier, _ bytes: Int, _ now: UInt64) {
        guard let found = held[answer], found.owed > 0 else { return }
        let kept = 1 - min(1, Double(bytes) / Double(found.owed))
        held[answer]?.since = now - min(now, UInt64(Double(found.age(now)) * kept))
    }

    mutating func forget(_ answer: ObjectIdentifier) {
        held[answer] = nil
        waiting[answer] = nil
        leaving[answer] = nil
    }

    // MARK: - Requests that wait

    mutating func wait(_ answer: ObjectIdentifier, of origin: String, for bytes: Int) { waiting[answer] = Waiting(origin: origin, bytes: bytes) }

    mutating func stopWaiting(_ answer: ObjectIdentifier) { waiting[answer] = nil }

    /// Whether no other answer holds anything that its client could release, so that there is nothing to wait for.
    ///
    /// - Parameter besideQuestions: whether other requests themselves do not matter.
    func isAlone(_ answer: ObjectIdentifier, besideQuestions: Bool, _ now: UInt64) -> Bool {
        held.allSatisfy { key, held in key == answer || held.owed == 0 && (besideQuestions || !held.hasQuestion) } && stillLeaving(now) == 0
    }

    /// Whether a request lets others go first: its address holds and wants more than its share, and one that is content with its share waits.
    ///
    /// - Parameter share: what one address may hold while others wait.
    func givesWay(_ answer: ObjectIdentifier, of origin: String, for bytes: Int, share: Int) -> Bool {
        guard waiting.values.contains(where: { $0.origin != origin }) else { return false }
        let wants = wants()
        let own = wants[origin, default: 0] + (waiting[answer] == nil ? bytes : 0)
        return own > share && waiting.values.contains { $0.origin != origin && wants[$0.origin, default: 0] <= share }
    }

    /// What each address holds.
    private func sums() -> [String: Int] { held.values.reduce(into: [:]) { $0[$1.origin, default: 0] += $1.bytes } }

    /// What each address holds and waits for.
    private func wants() -> [String: Int] { waiting.values.reduce(into: sums()) { $0[$1.origin, default: 0] += $1.bytes } }

    /// Memory of answers that were cut just now. One whose memory is not released soon no longer counts: others are then cut instead.
    private func stillLeaving(_ now: UInt64) -> Int {
        leaving.values.reduce(0) { $0 + (now < $1.since + CouchLimits.answerHaste * 1_000_000 ? $1.bytes : 0) }
    }

    /// The answers to cut for a request, as many as it takes: those that have been owed the most for the longest. Their memory is released when
    /// their connections are closed.
    ///
    /// - Parameters:
    ///   - lacking: the bytes that it lacks.
    ///   - waited: for how long it has waited, in nanoseconds.
    ///   - share: what one address may hold while others wait.
    mutating func cutting(for answer: ObjectIdentifier, lacking: Int, waited: UInt64, share: Int, _ now: UInt64) -> [Held] {
        var lacking = lacking - stillLeaving(now)
        guard lacking > 0, waited > CouchLimits.answerHaste * 1_000_000, let request = waiting[answer] else { return [] }
        var sums = sums()
        let isModest = wants()[request.origin, default: 0] <= share
        let (haste, patience) = (CouchLimits.answerHaste * 1_000_000, CouchLimits.answerPatience * 1_000_000)
        var chosen: [Held] = []
        for candidate in candidates(but: answer, now) where lacking > 0 {
            let debtor = candidate.held
            let isOld = waited > patience && debtor.age(now) > patience
            let holdsTooMuch = isModest && debtor.origin != request.origin && debtor.age(now) > haste && sums[debtor.origin, default: 0] > share
            guard isOld || holdsTooMuch else { continue }
            held[candidate.answer] = nil
            leaving[candidate.answer] = Leaving(bytes: debtor.bytes, since: now)
            sums[debtor.origin, default: 0] -= debtor.bytes
            lacking -= debtor.bytes
            chosen.append(debtor)
        }
        return chosen
    }

    private struct Candidate {
        var answer: ObjectIdentifier
        var held: Held
        /// The request itself waits for memory, so that its client cannot read on.
        var waits: Bool
        var weight: Double
    }

    /// The answers whose clients owe something, the first ones to cut first.
    private func candidates(but answer: ObjectIdentifier, _ now: UInt64) -> [Candidate] {
        let debtors = held.filter { key, held in key != answer && held.owed > 0 }
        let all = debtors.map { key, held in Candidate(answer: key, held: held, waits: waiting[key] != nil, weight: held.weight(now)) }
        return all.sorted { first, second in first.waits == second.waits ? first.weight > second.weight : second.waits }
    }
}
