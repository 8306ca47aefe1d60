import Interfaces
import Logging
import Synchronization

/// An entry joined the list of what needs attention, or left it.
struct AttentionChange: Sendable {
    var entry: Attention
    var isOver: Bool
    /// When it was noticed (seconds since 1970).
    var time: Int64
}

/// Since when entries have been on the list, for those whose beginning is not recorded elsewhere.
final class AttentionTimes: Sendable {
    private struct Key: Hashable {
        var kind: AttentionKind
        var subject: String
    }

    private struct State {
        var seen: [Key: Attention] = [:]
        /// When problems began that the next check will report.
        var signs: [Key: Int64] = [:]
    }

    private let state = Mutex(State())
    private let changes = EventHub<AttentionChange>(kept: EventQueue.maximumWaiting)

    /// Notes that something happened which the next check will report: it began at this time, not when the check runs.
    func sign(of kind: AttentionKind, _ subject: String, at now: Int64) {
        state.withLock { state in
            let key = Key(kind: kind, subject: subject)
            if state.signs[key] == nil { state.signs[key] = now }
        }
    }

    /// Fills in the times, forgets entries that are over, and publishes what has come and gone.
    func complete(_ list: inout [Attention], now: Int64, logger: Logger) {
        var all = Set<Key>()
        var news: [Attention] = []
        let over = state.withLock { state in
            for index in list.indices {
                let key = Key(kind: list[index].kind, subject: list[index].subject)
                all.insert(key)
                let known = state.seen[key]
                // A retry that fails again does not make the problem new.
                let first = [known?.since, list[index].since].compactMap { $0 }.min()
                list[index].since = first ?? state.signs[key] ?? now
                if known == nil { news.append(list[index]) }
                state.seen[key] = list[index]
            }
            state.signs = [:]
            let over = state.seen.filter { !all.contains($0.key) }
            for key in over.keys { state.seen[key] = nil }
            // Inside the lock, so that the changes found by two checks are not interleaved.
            for entry in news { changes.send(AttentionChange(entry: entry, isOver: false, time: now)) }
            for entry in over.values { changes.send(AttentionChange(entry: entry, isOver: true, time: now)) }
            return Array(over.keys)
        }
        // Of each kind, whatever else the log says of it: who reads only the log finds a beginning and an end. Lines of one kind are folded together.
        for entry in news { logger.warning("needs attention: \(entry.sentence)", metadata: ["kind": "\(entry.kind.rawValue)"]) }
        for key in over { logger.notice("\(key.subject): \(key.kind.rawValue) is over", metadata: ["kind": "\(key.kind.rawValue)"]) }
    }

    /// Entries that come or go from now on.
    func stream() -> AsyncStream<AttentionChange> { changes.stream() }
}
