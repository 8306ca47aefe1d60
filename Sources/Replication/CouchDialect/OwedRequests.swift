import Environment
import Interfaces
import Synchronization

/// Requests that the peer has not answered, and since when each has made no progress. Requests of an idle feed are not included: their answer is
/// silence.
final class OwedRequests: Sendable {
    private struct Request {
        var since: Int64
        /// Bytes transferred since then, in either direction.
        var bytes = 0
    }

    private let state = Mutex((next: 0, open: [Int: Request]()))

    /// The start of the longest period without progress, in seconds since 1970; nil if no request is open.
    var since: Int64? { state.withLock { $0.open.values.map(\.since).min() } }

    /// Sends a request, which counts as owed until it is over.
    func during<Answer>(
        _ request: PeerRequest, _ time: any TimeSource, _ send: (PeerRequest) async throws -> Answer
    ) async throws -> Answer {
        guard !request.hasHeartbeat else { return try await send(request) }
        let now = time.wallSeconds()
        let number = state.withLock { state in
            state.next += 1
            state.open[state.next] = Request(since: now)
            return state.next
        }
        defer { state.withLock { $0.open[number] = nil } }
        var request = request
        request.moved = { [weak self] in self?.moved($0, of: number, time) }
        let collecting = request.collecting
        request.collecting = { [weak self] bytes in
            let before = time.wallSeconds()
            try await collecting?(bytes)
            // While we wait for memory, the peer owes nothing.
            if time.wallSeconds() != before { self?.restart(number, time) }
        }
        return try await send(request)
    }

    private func restart(_ number: Int, _ time: any TimeSource) {
        state.withLock { $0.open[number]?.since = time.wallSeconds() }
    }

    private func moved(_ bytes: Int, of number: Int, _ time: any TimeSource) {
        state.withLock { state in
            guard var request = state.open[number] else { return }
            request.bytes += bytes
            // Fewer bytes may come from a peer that only shows that it is alive.
            if request.bytes >= DriverBounds.progressBytes { request = Request(since: time.wallSeconds()) }
            state.open[number] = request
        }
    }
}
