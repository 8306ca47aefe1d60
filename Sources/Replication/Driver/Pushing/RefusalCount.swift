import Documents
import DocumentStore
import Interfaces
import Synchronization

/// The number of documents on a list of refused ones. It is read and changed by the transactions that change the list, so that
/// concurrent ones know of each other.
final class RefusalCount: Sendable {
    private let known = Mutex<Int?>(nil)

    /// The count if it is known; otherwise the result of `read`.
    func value<Failure: Error>(_ read: () throws(Failure) -> Int) throws(Failure) -> Int {
        if let count = known.withLock({ $0 }) { return count }
        return try read()
    }

    func set(_ count: Int) { known.withLock { $0 = count } }
    /// Documents may have left the list.
    func forget() { known.withLock { $0 = nil } }
}
