import Documents
import DocumentStore
import NIOCore

/// The peer's change lists that are not answered yet. They are read and answered one by one, in order; that a list waits for its
/// answer is how a peer is slowed down.
struct WaitingLists {
    private enum Current {
        case nothing
        /// Somebody reads its JSON.
        case reading(IncomingList)
        /// The store is asked about its rows.
        case asking(IncomingList, ListRows)
    }

    private let limits: ReplicationLimits
    private var waiting: [IncomingList] = []
    private var current = Current.nothing
    /// What those hold that wait, and the one that is looked at.
    private(set) var bytes = 0

    init(_ limits: ReplicationLimits) { self.limits = limits }

    var isIdle: Bool { if case .nothing = current { waiting.isEmpty } else { false } }

    /// The list of which the store is asked, and its rows.
    var asking: (list: IncomingList, rows: ListRows)? {
        if case .asking(let list, let rows) = current { (list, rows) } else { nil }
    }

    /// - Throws: ``MessageError`` where the peer sends many more lists than it waits for.
    mutating func append(_ list: IncomingList) throws(MessageError) {
        let size = HeldBytes.list(list)
        if waiting.count >= limits.maximumWaitingChangeLists
            || !waiting.isEmpty && bytes + size > limits.maximumWaitingChangeListBytes
        {
            throw .notNow(
                "\(waiting.count) change lists with \(bytes) bytes wait already; max_waiting_change_lists is "
                    + "\(limits.maximumWaitingChangeLists), max_waiting_change_list_bytes \(limits.maximumWaitingChangeListBytes)")
        }
        waiting.append(list)
        bytes += size
    }

    /// Takes the next list to read; nil while one is at work.
    mutating func begin() -> IncomingList? {
        guard case .nothing = current, !waiting.isEmpty else { return nil }
        let list = waiting.removeFirst()
        current = .reading(list)
        return list
    }

    mutating func ask(_ rows: ListRows) -> IncomingList? {
        guard case .reading(var list) = current else { return nil }
        bytes -= HeldBytes.list(list)
        // The rows say all that the body did.
        (list.body, list.rows) = (ByteBuffer(), rows)
        bytes += HeldBytes.list(list)
        current = .asking(list, rows)
        return list
    }

    /// The list is answered, or refused.
    mutating func finish() -> IncomingList? {
        defer { current = .nothing }
        switch current {
        case .nothing: return nil
        case .reading(let list), .asking(let list, _):
            bytes -= HeldBytes.list(list)
            return list
        }
    }
}
