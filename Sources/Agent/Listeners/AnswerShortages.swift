import CouchDBServer
import Synchronization

/// Answers of a listener's CouchDB API that were cut, and requests that were refused, because what clients left unread took up the memory.
final class AnswerShortages: Sendable {
    /// The shortage until there has been none for a while.
    struct Shortage: Sendable, Equatable {
        var since: Int64
        fileprivate var last: Int64
        var cut = 0
        var refused = 0
        /// The address that left an answer unread last; nil if none was cut.
        var address: String?
    }

    private struct State {
        var shortage: Shortage?
        var cut = 0
        var refused = 0
    }

    /// `unread_answers_time`: seconds without one after which the shortage counts as over.
    private static let seconds: Int64 = 600

    private let state = Mutex(State())

    /// The totals since the start.
    var totals: (cut: Int, refused: Int) { state.withLock { ($0.cut, $0.refused) } }

    func note(_ kind: AnswerMemory.Shortage, from address: String, now: Int64) {
        state.withLock { state in
            var shortage = Self.current(state, now) ?? Shortage(since: now, last: now)
            shortage.last = now
            switch kind {
            case .cut:
                shortage.cut += 1
                shortage.address = address
                state.cut += 1
            case .refused:
                shortage.refused += 1
                state.refused += 1
            }
            state.shortage = shortage
        }
    }

    func current(now: Int64) -> Shortage? { state.withLock { Self.current($0, now) } }

    private static func current(_ state: State, _ now: Int64) -> Shortage? { state.shortage.flatMap { $0.last > now - seconds ? $0 : nil } }
}
