import Environment
import Synchronization

/// Keeps peers from guessing the content of documents that they may not see.
///
/// A revision id is a digest of the revision's content: a peer that sends one made from a guess learns whether the guess was right, because a peer
/// that writes what it may not read, and lost the answer, has to be told that its write is stored. Such a peer is never wrong, so a login that is
/// wrong often gets the same answers as if it were always wrong.
public final class HiddenConflicts: Sendable {
    /// `hidden_conflicts`: writes by one login to hidden documents that name a revision which does not exist, within the time below. Enough for
    /// devices that share a login and edit documents that have left their channels; guessing four digits takes days.
    public static let limit = 100
    /// `hidden_conflicts_time`: the period in seconds over which they are counted, starting with the first.
    public static let seconds: UInt64 = 3_600
    /// `hidden_conflict_accounts`: logins counted at the same time; the oldest ones are dropped to make room.
    static let accounts = 10_000

    /// A login, or the address of an anonymous peer.
    public struct Account: Sendable {
        let conflicts: HiddenConflicts
        let name: String

        /// It has been wrong too often: nothing it says about hidden documents is believed.
        var isExhausted: Bool { conflicts.isExhausted(name) }

        /// - Parameter wrong: how many wrong guesses the current request can contain.
        func mayRunOut(_ wrong: Int) -> Bool { conflicts.count(name) + wrong >= HiddenConflicts.limit }

        func note() { conflicts.note(name) }
    }

    private struct Entry {
        var count = 0
        /// Monotonic time in nanoseconds.
        var began: UInt64
    }

    private let time: any TimeSource
    private let onExhausted: @Sendable (String) -> Void
    private let entries = Mutex<[String: Entry]>([:])

    /// - Parameter onExhausted: called for each login when it stops being believed.
    public init(_ time: any TimeSource, onExhausted: @escaping @Sendable (String) -> Void = { _ in }) {
        (self.time, self.onExhausted) = (time, onExhausted)
    }

    /// The logins that are currently not believed, in order.
    public var exhausted: [String] {
        let now = time.monotonicNanoseconds()
        return entries.withLock { entries in entries.filter { Self.isCurrent($0.value, now) && $0.value.count >= Self.limit }.map(\.key) }.sorted()
    }

    private static func isCurrent(_ entry: Entry, _ now: UInt64) -> Bool { now - min(now, entry.began) < seconds * 1_000_000_000 }

    private func count(_ name: String) -> Int {
        let now = time.monotonicNanoseconds()
        return entries.withLock { entries in entries[name].map { Self.isCurrent($0, now) ? $0.count : 0 } ?? 0 }
    }

    private func isExhausted(_ name: String) -> Bool { count(name) >= Self.limit }

    private func note(_ name: String) {
        let now = time.monotonicNanoseconds()
        let hasRunOut = entries.withLock { entries in
            var entry = entries[name].flatMap { Self.isCurrent($0, now) ? $0 : nil } ?? Entry(began: now)
            entry.count += 1
            if entries[name] == nil, entries.count >= Self.accounts { Self.makeRoom(&entries, now) }
            entries[name] = entry
            return entry.count == Self.limit
        }
        if hasRunOut { onExhausted(name) }
    }

    /// Drops a tenth at once, so that an attack from very many addresses does not cost a search each time.
    private static func makeRoom(_ entries: inout [String: Entry], _ now: UInt64) {
        entries = entries.filter { isCurrent($0.value, now) }
        guard entries.count >= accounts else { return }
        for (name, _) in entries.sorted(by: { $0.value.began < $1.value.began }).prefix(accounts / 10) { entries[name] = nil }
    }
}

extension PassiveConfiguration {
    /// The account charged for wrong guesses about hidden documents by a peer at this address.
    func hiddenAccount(_ remote: String) -> HiddenConflicts.Account {
        let host = remote[..<(remote.lastIndex(of: ":") ?? remote.endIndex)]
        return HiddenConflicts.Account(conflicts: hiddenConflicts, name: principal.name.map { "user \($0)" } ?? "address \(host)")
    }
}
