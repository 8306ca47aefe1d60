import Logging
import Synchronization

/// Since when things are on the list whose beginning nobody noted.
final class AttentionTimes: Sendable {
    private struct Key: Hashable {
        var kind: AttentionKind
        var subject: String
    }

    private let seen = Mutex<[Key: Int64]>([:])

    /// Fills in the times, takes out what is over, and tells of what has come and gone.
    func complete(_ list: inout [Attention], now: Int64, logger: Logger) {
        var all = Set<Key>()
        var news: [Attention] = []
        let over = seen.withLock { seen in
            for index in list.indices {
                let key = Key(kind: list[index].kind, subject: list[index].subject)
                all.insert(key)
                if seen[key] == nil {
                    seen[key] = list[index].since ?? now
                    news.append(list[index])
                }
                // What is tried again and fails again did not begin with the last try.
                seen[key] = [seen[key], list[index].since].compactMap { $0 }.min()
                list[index].since = seen[key]
            }
            let over = seen.keys.filter { !all.contains($0) }
            for key in over { seen[key] = nil }
            return over
        }
        for entry in news where entry.kind.isLogged { logger.warning("needs attention: \(entry.sentence)", metadata: ["kind": "\(entry.kind.rawValue)"]) }
        for key in over where key.kind.isLogged { logger.notice("\(key.subject): \(key.kind.rawValue) is over") }
    }
}
