import Documents

/// Identifies a change list in flight.
struct ChangeListID: Hashable, Sendable {
    var number: UInt64
}

/// Offers to the peer: documents that wait for a list, and lists that the peer has not answered.
struct OfferedLists {
    private(set) var ready: [OutgoingDocument] = []
    private var lists: [ChangeListID: [DocumentID]] = [:]
    private var last: UInt64

    /// - Parameter generation: number of the push on its connection, so that an answer to a list of an earlier push finds nothing.
    init(generation: Int) { last = UInt64(generation) << 32 }

    /// Number of lists in flight.
    var count: Int { lists.count }
    /// Nothing is waiting or in flight.
    var isEmpty: Bool { lists.isEmpty && ready.isEmpty }

    mutating func append(_ document: OutgoingDocument) { ready.append(document) }

    /// Takes the documents that are not to be offered after all.
    mutating func takeReady() -> [DocumentID] {
        defer { ready = [] }
        return ready.map(\.id)
    }

    /// The next list, if there is room for it.
    mutating func begin(_ limits: ReplicationLimits) -> (ChangeListID, [OutgoingDocument])? {
        guard !ready.isEmpty, lists.count < limits.changeListsInFlight else { return nil }
        var rows = ready
        ready.removeAll()
        var room = limits.rowsPerChangeList
        for (count, document) in rows.prefix(room).enumerated() {
            // With this document, the list would be too long for it or for one before it.
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
        lists[ChangeListID(number: last)] = rows.map(\.id)
        return (ChangeListID(number: last), rows)
    }

    /// The documents of an answered list, in the order in which they were offered. A second answer finds nothing.
    mutating func take(_ list: ChangeListID) -> [DocumentID] { lists.removeValue(forKey: list) ?? [] }
}
