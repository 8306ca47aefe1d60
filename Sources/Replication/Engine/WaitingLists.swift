import Documents
import DocumentStore
import Interfaces

/// The peer's change lists that are not answered yet. They are parsed and answered one by one, in order; leaving a list unanswered is what slows a
/// peer down (back-pressure).
struct WaitingLists {
    private enum Current {
        case nothing
        /// Its JSON is being parsed.
        case reading(IncomingList)
        /// The store is asked about its rows.
        case asking(IncomingList, ListRows)
    }

    private let limits: ReplicationLimits
    private var waiting: [IncomingList] = []
    private var current = Current.nothing
    /// Memory held by the waiting lists and the one being processed, in bytes.
    private(set) var bytes = 0

    init(_ limits: ReplicationLimits) { self.limits = limits }

    var isIdle: Bool { if case .nothing = current { waiting.isEmpty } else { false } }

    /// Lists wait, and none is being processed.
    var areHeldUp: Bool { if case .nothing = current { !waiting.isEmpty } else { false } }

    /// The list about which the store is asked, and its rows.
    var asking: (list: IncomingList, rows: ListRows)? {
        if case .asking(let list, let rows) = current { (list, rows) } else { nil }
    }

    /// - Throws: ``ReplicationError`` if the peer sends many more lists than it may have unanswered.
    mutating func append(_ list: IncomingList) throws(ReplicationError) {
        let size = HeldBytes.list(list)
        if waiting.count >= limits.maximumWaitingChangeLists
            || !waiting.isEmpty && bytes + size > limits.maximumWaitingChangeListBytes
        {
            throw .busy(
                "\(waiting.count) change lists with \(bytes) bytes wait already; max_waiting_change_lists is "
                    + "\(limits.maximumWaitingChangeLists), max_waiting_change_list_bytes \(limits.maximumWaitingChangeListBytes)")
        }
        waiting.append(list)
        bytes += size
    }

    /// Takes the next list to parse; nil while one is being processed.
    mutating func begin() -> IncomingList? {
        guard case .nothing = current, !waiting.isEmpty else { return nil }
        let list = waiting.removeFirst()
        current = .reading(list)
        return list
    }

    mutating func ask(_ rows: ListRows) -> IncomingList? {
        guard case .reading(var list) = current else { return nil }
        bytes -= HeldBytes.list(list)
        list.content = .rows(rows)
        bytes += HeldBytes.list(list)
        current = .asking(list, rows)
        return list
    }

    /// The list is answered or refused.
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
