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
        /// Its answer is not read at the moment, for lack of memory here.
        var waitsForUs = false
    }

    private let state = Mutex((next: 0, open: [Int: Request]()))

    /// The start of the longest period without progress, in seconds since 1970; nil if no request is open.
    var since: Int64? { state.withLock { $0.open.values.lazy.filter { !$0.waitsForUs }.map(\.since).min() } }

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
            guard let collecting else { return }
            // While we wait for memory, the peer owes nothing.
            self?.pause(number)
            defer { self?.resume(number, time) }
            try await collecting(bytes)
        }
        return try await send(request)
    }

    private func pause(_ number: Int) { state.withLock { $0.open[number]?.waitsForUs = true } }

    private func resume(_ number: Int, _ time: any TimeSource) {
        let now = time.wallSeconds()
        state.withLock { state in
            guard var request = state.open[number] else { return }
            // Usually there is memory at once.
            if now > request.since { request = Request(since: now) }
            request.waitsForUs = false
            state.open[number] = request
        }
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
