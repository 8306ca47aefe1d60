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
    /// `max_waiting_events`: kept for a follower that is slow; older ones are dropped.
    private static let maximumWaiting = 1_000

    private struct Key: Hashable {
        var kind: AttentionKind
        var subject: String
    }

    private struct State {
        var seen: [Key: Attention] = [:]
        /// Of what began since the last look.
        var signs: [Key: Int64] = [:]
        var followers: [Int: AsyncStream<AttentionChange>.Continuation] = [:]
        var next = 0
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
            // Yielding runs no code of a follower, and here all of them get the changes in one order.
            let changes = news.map { AttentionChange(entry: $0, isOver: false, time: now) } + over.values.map { AttentionChange(entry: $0, isOver: true, time: now) }
            for follower in state.followers.values { for change in changes { follower.yield(change) } }
            return Array(over.keys)
        }
        for entry in news where entry.kind.isLogged { logger.warning("needs attention: \(entry.sentence)", metadata: ["kind": "\(entry.kind.rawValue)"]) }
        for key in over where key.kind.isLogged { logger.notice("\(key.subject): \(key.kind.rawValue) is over") }
    }

    /// What comes and goes from now on.
    func stream() -> AsyncStream<AttentionChange> {
        AsyncStream(bufferingPolicy: .bufferingNewest(Self.maximumWaiting)) { continuation in
            let key = state.withLock { state in
                state.next += 1
                state.followers[state.next] = continuation
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.followers.removeValue(forKey: key) }
            }
        }
    }
}
