import Interfaces
import Logging
import Synchronization

/// Something came onto the list of what needs attention, or is over.
struct AttentionChange: Sendable {
    var entry: Attention
    var isOver: Bool
    /// When it was noticed (seconds since 1970).
    var time: Int64
}

/// Since when things are on the list whose beginning nobody noted.
final class AttentionTimes: Sendable {
    private struct Key: Hashable {
        var kind: AttentionKind
        var subject: String
    }

    private struct State {
        var seen: [Key: Attention] = [:]
        /// Of what began since the last look.
        var signs: [Key: Int64] = [:]
    }

    private let state = Mutex(State())
    private let changes = EventHub<AttentionChange>(kept: EventQueue.maximumWaiting)

    /// Something has happened of which the next look will tell: it began then, and not when somebody looks.
    func sign(of kind: AttentionKind, _ subject: String, at now: Int64) {
        state.withLock { state in
            let key = Key(kind: kind, subject: subject)
            if state.signs[key] == nil { state.signs[key] = now }
        }
    }

    /// Fills in the times, takes out what is over, and tells of what has come and gone.
    func complete(_ list: inout [Attention], now: Int64, logger: Logger) {
        var all = Set<Key>()
        var news: [Attention] = []
        let over = state.withLock { state in
            for index in list.indices {
                let key = Key(kind: list[index].kind, subject: list[index].subject)
                all.insert(key)
                let known = state.seen[key]
                // What is tried again and fails again did not begin with the last try.
                let first = [known?.since, list[index].since].compactMap { $0 }.min()
                list[index].since = first ?? state.signs[key] ?? now
                if known == nil { news.append(list[index]) }
                state.seen[key] = list[index]
            }
            state.signs = [:]
            let over = state.seen.filter { !all.contains($0.key) }
            for key in over.keys { state.seen[key] = nil }
            // Inside the lock, so that the changes of one look do not mix with those of another.
            for entry in news { changes.send(AttentionChange(entry: entry, isOver: false, time: now)) }
            for entry in over.values { changes.send(AttentionChange(entry: entry, isOver: true, time: now)) }
            return Array(over.keys)
        }
        for entry in news where entry.kind.isLogged { logger.warning("needs attention: \(entry.sentence)", metadata: ["kind": "\(entry.kind.rawValue)"]) }
        for key in over where key.kind.isLogged { logger.notice("\(key.subject): \(key.kind.rawValue) is over") }
    }

    /// What comes and goes from now on.
    func stream() -> AsyncStream<AttentionChange> { changes.stream() }
}
