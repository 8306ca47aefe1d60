import Documents
import Synchronization

/// Notifies observers when a blob that was missing or damaged is intact again.
final class BlobMends: Sendable {
    typealias Handler = @Sendable (BlobDigest) -> Void

    private struct State {
        /// In order of registration: the simulation needs a deterministic order.
        var observers: [(number: Int, handler: Handler)] = []
        var nextNumber = 0
    }

    private let state = Mutex(State())

    func observe(_ handler: @escaping Handler) -> ChangeObservation {
        let number = state.withLock { state in
            state.nextNumber += 1
            state.observers.append((state.nextNumber, handler))
            return state.nextNumber
        }
        return ChangeObservation { [weak self] in self?.remove(number) }
    }

    private func remove(_ number: Int) {
        state.withLock { $0.observers.removeAll { $0.number == number } }
    }

    func mended(_ digests: [BlobDigest]) {
        if digests.isEmpty { return }
        let handlers = state.withLock { $0.observers.map(\.handler) }
        for handler in handlers { for digest in digests { handler(digest) } }
    }
}
