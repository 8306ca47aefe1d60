import Interfaces

/// A pull that waits for room: nothing more is asked for until there is some, and what did not fit stays open, so that no checkpoint passes it.
/// The peer is slowed down as by a store that is slow; what is pushed to it goes on.
struct RoomWait: Sendable {
    /// What did not fit, and why.
    var error: ReplicationError
    /// Of the largest document that did not fit, with its blobs.
    var bytes: Int
}

extension PullMachine {
    /// A document cannot be had or stored now.
    mutating func postpone(_ error: ReplicationError, bytes: Int, _ actions: inout [PullAction]) {
        guard error.isNoRoom, !settings.isPassive else { return comeBack(&actions) }
        let isWaiting = roomWait != nil
        roomWait = RoomWait(error: error, bytes: max(bytes, roomWait?.bytes ?? 0))
        if !isWaiting { actions.append(.lookForRoom(bytes: bytes)) }
    }

    mutating func lookedForRoom(isThere: Bool, _ actions: inout [PullAction]) {
        guard let roomWait else { return }
        actions.append(isThere ? .comeBackNow : .lookForRoom(bytes: roomWait.bytes))
    }
}
