import Documents
import DocumentStore
import Environment
import Interfaces

/// A peer's questions about checkpoints and collections, which wait for their turn: each answer may be a megabyte for a few bytes of
/// question.
struct PassiveRequests {
    enum Request: Sendable {
        case checkpoint(AnswerHandle?, id: String)
        case setCheckpoint(AnswerHandle?, id: String, body: [UInt8], expectedRevision: String?)
        case collections(AnswerHandle?, ids: [String], found: [Bool])

        /// What it holds while it waits.
        var bytes: Int {
            switch self {
            case .checkpoint(_, let id): HeldBytes.request + HeldBytes.text(id)
            case .setCheckpoint(_, let id, let body, let expected):
                HeldBytes.request + HeldBytes.text(id) + body.count + (expected.map(HeldBytes.text) ?? 0)
            case .collections(_, let ids, let found):
                HeldBytes.request + found.count + ids.reduce(0) { $0 + MemoryLayout<String>.stride + HeldBytes.text($1) }
            }
        }
    }

    private var waiting: [Request] = []
    /// Of the one that is being served; nil: none.
    private var serving: Int?
    /// What those that wait hold, and the one that is being served.
    private(set) var bytes = 0
    /// Taken for answers that the session has not counted yet.
    private var rooms: [MemoryBudget.Reservation] = []

    var isEmpty: Bool { waiting.isEmpty && serving == nil }
    var count: Int { waiting.count }

    mutating func append(_ request: Request) {
        waiting.append(request)
        bytes += request.bytes
    }

    /// One at a time.
    mutating func next() -> Request? {
        guard serving == nil, !waiting.isEmpty else { return nil }
        let request = waiting.removeFirst()
        serving = request.bytes
        return request
    }

    /// - Parameter room: what was taken for the answer: held until the answer is counted.
    mutating func served(_ room: MemoryBudget.Reservation? = nil) {
        bytes -= serving ?? 0
        serving = nil
        if let room { rooms.append(room) }
    }

    /// The answers are counted with what the session holds.
    mutating func takeRooms() -> [MemoryBudget.Reservation] {
        guard !rooms.isEmpty else { return [] }
        defer { rooms = [] }
        return rooms
    }
}
