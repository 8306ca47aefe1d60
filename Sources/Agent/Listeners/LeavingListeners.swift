import Synchronization

/// Listeners that have given their port back and whose last connections end: a peer that does not answer has some seconds for that, and nobody else
/// waits for it.
final class LeavingListeners: Sendable {
    private let state = Mutex((next: 0, leaving: [Int: Task<Void, Never>]()))

    /// - Parameter listener: takes no peers any more.
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

    /// Returns when all are gone.
    func wait() async {
        for task in state.withLock({ Array($0.leaving.values) }) { await task.value }
    }
}
