import Environment
import Synchronization

/// Keeps peers from guessing what stands in documents that they may not see.
///
/// A revision id is a digest of what stands in the revision: whoever sends one that was made of a guess is told whether it was right, because a
/// peer that writes what it may not read, and lost the answer, has to be told that its write is stored. Such a peer is never wrong, so a
/// login that is wrong often is answered as if it always were.
public final class HiddenConflicts: Sendable {
    /// `hidden_conflicts`: writes to hidden documents, of one login, that name no revision which is there, within the time. Enough for devices that
    /// share a login and edit what has left their channels; four digits take days.
    public static let limit = 100
    /// `hidden_conflicts_time`: seconds in which they count, from the first on.
    public static let seconds: UInt64 = 3_600
    /// `hidden_conflict_accounts`: logins that are counted at once; those that began longest ago make room.
    static let accounts = 10_000

    /// A login, or the address of peers without one.
    public struct Account: Sendable {
        let conflicts: HiddenConflicts
        let name: String

        /// It has been wrong too often: nothing that it says of hidden documents is believed.
        var isExhausted: Bool { conflicts.isExhausted(name) }

        /// - Parameter wrong: what it may come to be wrong about now.
        func mayRunOut(_ wrong: Int) -> Bool { conflicts.count(name) + wrong >= HiddenConflicts.limit }

        func note() { conflicts.note(name) }
    }

    private struct Entry {
        var count = 0
        /// Monotonic nanoseconds.
        var began: UInt64
    }

    private let time: any TimeSource
    private let ranOut: @Sendable (String) -> Void
    private let entries = Mutex<[String: Entry]>([:])

    /// - Parameter ranOut: told of each login that is not believed any more, when that begins.
    public init(_ time: any TimeSource, ranOut: @escaping @Sendable (String) -> Void = { _ in }) {
        (self.time, self.ranOut) = (time, ranOut)
    }

    /// Those that are not believed now, in order.
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
        if hasRunOut { ranOut(name) }
    }

    /// Forgets a tenth at once, so that an attack from very many addresses does not cost a search each time.
    private static func makeRoom(_ entries: inout [String: Entry], _ now: UInt64) {
        entries = entries.filter { isCurrent($0.value, now) }
        guard entries.count >= accounts else { return }
        for (name, _) in entries.sorted(by: { $0.value.began < $1.value.began }).prefix(accounts / 10) { entries[name] = nil }
    }
}

extension PassiveConfiguration {
    /// Who is counted for what a peer at this address gets wrong of hidden documents.
    func hiddenAccount(_ remote: String) -> HiddenConflicts.Account {
        let host = remote[..<(remote.lastIndex(of: ":") ?? remote.endIndex)]
        return HiddenConflicts.Account(conflicts: hiddenConflicts, name: principal.name.map { "user \($0)" } ?? "address \(host)")
    }
}
