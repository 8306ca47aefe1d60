import Documents
import DocumentStore
import Environment
import Interfaces

/// A peer's questions about checkpoints and collections, queued: an answer may be a megabyte for a question of a few bytes.
struct PassiveRequests {
    enum Request: Sendable {
        case checkpoint(AnswerHandle?, id: String)
        case setCheckpoint(AnswerHandle?, id: String, body: [UInt8], expectedRevision: String?)
        case collections(AnswerHandle?, ids: [String], found: [Bool])

        /// Memory it holds while it waits, in bytes.
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
    /// Size of the request being served; nil if there is none.
    private var serving: Int?
    /// Memory held by the waiting requests and the one being served, in bytes.
    private(set) var bytes = 0
    /// Reserved for answers that the session's accounts do not include yet.
    private var reservations: [MemoryBudget.Reservation] = []

    var isEmpty: Bool { waiting.isEmpty && serving == nil }
    var count: Int { waiting.count }
    var isServing: Bool { serving != nil }

    mutating func append(_ request: Request) {
        waiting.append(request)
        bytes += request.bytes
    }

    /// The next request; only one is served at a time.
    mutating func next() -> Request? {
        guard serving == nil, !waiting.isEmpty else { return nil }
        let request = waiting.removeFirst()
        serving = request.bytes
        return request
    }

    /// - Parameter reservation: the reservation for the answer, kept until the accounts include the answer.
    mutating func served(_ reservation: MemoryBudget.Reservation? = nil) {
        bytes -= serving ?? 0
        serving = nil
        if let reservation { reservations.append(reservation) }
    }

    /// The accounts include the answers: returns their reservations.
    mutating func takeReservations() -> [MemoryBudget.Reservation] {
        guard !reservations.isEmpty else { return [] }
        defer { reservations = [] }
        return reservations
    }
}
