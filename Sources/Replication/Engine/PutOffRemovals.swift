import Documents

/// Removals of documents that are on their way to the peer.
///
/// An edit may itself be what takes a document out of the user's channels, and the news of that may overtake the acknowledgement. Only the answer
/// says whether the edit is lost with the document. Until then the removal is open, and with it its sequence in the pull's checkpoint.
extension PushMachine {
    mutating func takeAway(_ actions: inout [PushAction]) {
        if removals.isEmpty { return }
        var (free, owed) = ([Removal](), [Removal]())
        for each in removals {
            if ledger.phase(of: each.id)?.awaitsAnswer ?? false { owed.append(each) } else { free.append(each) }
        }
        removals = owed
        if !free.isEmpty { actions.append(.takeAway(free)) }
    }
}
