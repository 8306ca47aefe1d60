import Documents

/// A number for one change list under way.
struct ListID: Hashable, Sendable {
    var number: UInt64
}

/// The change lists that the peer has not answered.
struct OfferedLists {
    private var lists: [ListID: [DocumentID]] = [:]
    private var last: UInt64

    /// - Parameter generation: of the push on its connection, so that an answer to a list of an earlier one finds nothing.
    init(generation: Int) { last = UInt64(generation) << 32 }

    var count: Int { lists.count }
    var isEmpty: Bool { lists.isEmpty }

    mutating func add(_ ids: [DocumentID]) -> ListID {
        last += 1
        lists[ListID(number: last)] = ids
        return ListID(number: last)
    }

    /// The documents of a list that was answered, in the order in which they were offered. A second answer finds nothing.
    mutating func take(_ list: ListID) -> [DocumentID] { lists.removeValue(forKey: list) ?? [] }
}
