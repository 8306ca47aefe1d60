import NIOCore
import NIOHTTP1

/// What a client sent ahead while an earlier request of its connection is answered: a few requests, then one refusal.
struct RequestQueue {
    private var parts = CircularBuffer<HTTPServerRequestPart>()
    private var requests = 0
    /// Why nothing that comes behind the queue is answered.
    private(set) var refusal: (status: Int, reason: String)?

    var isEmpty: Bool { parts.isEmpty }

    mutating func push(_ part: HTTPServerRequestPart, limit: Int) {
        if case .head = part {
            requests += 1
            if requests > limit { refuseTheRest(503, "more requests were sent ahead than queued_requests (\(limit)) allows") }
        }
        if refusal == nil { parts.append(part) }
    }

    mutating func pop() -> HTTPServerRequestPart? {
        let part = parts.popFirst()
        if case .head? = part { requests -= 1 }
        return part
    }

    /// The first reason counts.
    mutating func refuseTheRest(_ status: Int, _ reason: String) {
        refusal = refusal ?? (status, reason)
    }

    mutating func removeAll() { parts.removeAll() }
}
