import Documents
import DocumentStore
import Interfaces
import Synchronization

/// How many documents are on the list of what a peer refused: read and changed by the transactions that change the list, so that those
/// on their way know of each other.
final class RefusalCount: Sendable {
    private let known = Mutex<Int?>(nil)

    /// The count as far as it is known, or as `read` finds it.
    func value(_ read: () throws -> Int) rethrows -> Int {
        if let count = known.withLock({ $0 }) { return count }
        return try read()
    }

    func set(_ count: Int) { known.withLock { $0 = count } }
    /// Documents may have left the list.
    func forget() { known.withLock { $0 = nil } }
}
