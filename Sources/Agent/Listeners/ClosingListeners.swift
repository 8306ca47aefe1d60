import Synchronization

/// Listeners that have released their port and whose last connections are ending: a peer that does not answer gets a few seconds, during which
/// nobody else has to wait.
final class ClosingListeners: Sendable {
    private let state = Mutex((next: 0, leaving: [Int: Task<Void, Never>]()))

    /// - Parameter listener: no longer accepts peers.
    func leave(_ listener: PeerListener, code: UInt16) {
        state.withLock { state in
            state.next += 1
            let number = state.next
            state.leaving[number] = Task { [weak self] in
                await listener.endConnections(code: code, sessionsFirst: true)
                self?.state.withLock { $0.leaving[number] = nil }
            }
        }
    }

    /// Returns when all have ended.
    func wait() async {
        for task in state.withLock({ Array($0.leaving.values) }) { await task.value }
    }
}
