import Documents

/// A number for one change list under way.
struct ListID: Hashable, Sendable {
    var number: UInt64
}

/// What is offered to the peer in lists: documents that wait for their list, and the lists that the peer has not answered.
struct OfferedLists {
    private(set) var ready: [OutgoingDocument] = []
    private var lists: [ListID: [DocumentID]] = [:]
    private var last: UInt64

    /// - Parameter generation: of the push on its connection, so that an answer to a list of an earlier one finds nothing.
    init(generation: Int) { last = UInt64(generation) << 32 }

    /// Lists under way.
    var count: Int { lists.count }
    /// Nothing waits, and nothing is under way.
    var isEmpty: Bool { lists.isEmpty && ready.isEmpty }

    mutating func append(_ document: OutgoingDocument) { ready.append(document) }

    /// What is not to be offered after all.
    mutating func takeReady() -> [DocumentID] {
        defer { ready = [] }
        return ready.map(\.id)
    }

    /// The next list, if there is room for it.
    mutating func begin(_ limits: ReplicationLimits) -> (ListID, [OutgoingDocument])? {
        guard !ready.isEmpty, lists.count < limits.changeListsInFlight else { return nil }
        var rows = ready
        ready.removeAll()
        var room = limits.rowsPerChangeList
        for (count, document) in rows.prefix(room).enumerated() {
            // One more would make the list too long for it, or for one before it.
            let least = min(room, document.rowsOfList ?? room)
            guard count < least else {
                room = count
                break
            }
            room = least
        }
        if rows.count > room {
            ready = Array(rows[room...])
            rows.removeLast(ready.count)
        }
        last += 1
        lists[ListID(number: last)] = rows.map(\.id)
        return (ListID(number: last), rows)
    }

    /// The documents of a list that was answered, in the order in which they were offered. A second answer finds nothing.
    mutating func take(_ list: ListID) -> [DocumentID] { lists.removeValue(forKey: list) ?? [] }
}
