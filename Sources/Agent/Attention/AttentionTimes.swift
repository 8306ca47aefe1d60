import Logging
import Synchronization

/// Since when things are on the list whose beginning nobody noted.
final class AttentionTimes: Sendable {
    private struct Key: Hashable {
        var kind: AttentionKind
        var subject: String
    }

    private struct State {
        var seen: [Key: Int64] = [:]
        /// Of what began since the last look.
        var signs: [Key: Int64] = [:]
    }

    private let state = Mutex(State())

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
                if state.seen[key] == nil {
                    state.seen[key] = list[index].since ?? state.signs[key] ?? now
                    news.append(list[index])
                }
                // What is tried again and fails again did not begin with the last try.
                state.seen[key] = [state.seen[key], list[index].since].compactMap { $0 }.min()
                list[index].since = state.seen[key]
            }
            state.signs = [:]
            let over = state.seen.keys.filter { !all.contains($0) }
            for key in over { state.seen[key] = nil }
            return over
        }
        for entry in news where entry.kind.isLogged { logger.warning("needs attention: \(entry.sentence)", metadata: ["kind": "\(entry.kind.rawValue)"]) }
        for key in over where key.kind.isLogged { logger.notice("\(key.subject): \(key.kind.rawValue) is over") }
    }
}
