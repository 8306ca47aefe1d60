import CouchDBServer
import Encodings
import Environment
import Synchronization

/// Answers of a listener's CouchDB API that were cut, and requests that were refused, because what clients left unread took up the memory.
final class AnswerShortages: Sendable {
    /// The shortage until there has been none for a while.
    struct Shortage: Sendable, Equatable {
        var since: Int64
        fileprivate var last: Int64
        var cut = 0
        var refused = 0
        /// What was read for the largest answer that was cut, in bytes: twice the size of its documents.
        var largest = 0
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
            case .cut(let bytes):
                shortage.cut += 1
                shortage.largest = max(shortage.largest, bytes)
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

extension AnswerShortages.Shortage {
    /// What happened, and what to do. A client that reads what it asked for is not accused of reading nothing.
    ///
    /// - Parameter memory: `limits.memory`, in bytes.
    func told(memory: Int) -> (text: String, remedy: String) {
        let answers = address.map { "\(Plural.count(cut, "answer")) cut, the last one to \($0)" }
        let requests = refused > 0 ? "\(Plural.count(refused, "request")) refused" : nil
        let what = [answers, requests].compactMap(\.self).joined(separator: "; ")
        guard largest > memory / 8 else {
            return (
                "limits.memory was used up before clients had read their answers, because they stop reading or others need much: \(what)",
                "find out which clients stop reading, and why; if they only read slowly, let them ask for less at once, or raise limits: { memory } and restart"
            )
        }
        // It was counted as read and as written.
        let documents = largest / 2
        return (
            "clients ask for documents that are large for this agent's limits.memory (\(memory)), and find their connection ended: \(what); the largest of these answers had documents of "
                + "\(documents) bytes at once",
            "\(Agent.largerMemory(MemoryBudget.setting(forDocument: documents))) and restart the agent, or have the documents made smaller"
        )
    }
}
