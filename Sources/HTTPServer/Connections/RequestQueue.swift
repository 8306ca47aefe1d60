import NIOCore
import NIOHTTP1

/// Requests that a client sent ahead while an earlier one on its connection is being answered: a limited number, then one
/// refusal.
struct RequestQueue {
    private var parts = CircularBuffer<HTTPServerRequestPart>()
    private var requests = 0
    /// Why nothing after the queued requests is answered.
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

    /// The first reason is kept.
    mutating func refuseTheRest(_ status: Int, _ reason: String) {
        refusal = refusal ?? (status, reason)
    }

    mutating func removeAll() { parts.removeAll() }
}
