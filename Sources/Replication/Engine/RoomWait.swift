import Interfaces

/// A pull that waits for room. It reads on: deletions and what the peer takes away make room, and what is smaller than all that did not fit may
/// fit. The rest is not asked for, so that a store that is full need not refuse it one by one. What is not here stays open, so that no checkpoint
/// passes it, and is offered again on another connection.
struct RoomWait: Sendable {
    /// What did not fit, and why.
    var error: ReplicationError
    /// Of the smallest document that did not fit, with its blobs.
    var bytes: Int
    /// Documents that did not fit since one did.
    var documents = 0
    /// The same of deletions: on a disk that is full they are not taken either.
    var deletions = 0

    /// Whether it is worth asking for a revision: of many rows it is not known how large their documents are.
    func mayFit(_ row: OfferedRow, tries: Int) -> Bool {
        row.isDeletion ? deletions < tries : row.bodySize < bytes && documents < tries
    }
}

/// When room is looked for. A pull takes it within seconds; where room came and went before, only when the wait has lasted long enough.
struct RoomLooks: Sendable {
    /// Seconds between two looks.
    let pause: Int
    private let least: Int
    private var lasted = 0

    /// - Parameter comebacks: connections, one after the other, that ended to ask once more for what did not fit.
    init(_ limits: ReplicationLimits, comebacks: Int) {
        pause = limits.roomLookSeconds
        least = RetryDelay(first: limits.roomLookSeconds, longest: limits.maximumRoomLookSeconds).seconds(after: comebacks)
    }

    /// A pause is over, and there is room or not.
    ///
    /// - Returns: whether the wait is over.
    mutating func looked(isThere: Bool) -> Bool {
        lasted += pause
        return isThere && lasted >= least
    }
}

extension PullMachine {
    /// A document cannot be had or stored now.
    mutating func postpone(
        _ sequence: RemoteSequence?, _ error: ReplicationError, bytes: Int, isDeleted: Bool = false, _ actions: inout [PullAction]
    ) {
        guard error.isNoRoom, !settings.isPassive else { return comeBack(&actions) }
        leaveOpen(sequence)
        // Of some attachments the size is not known.
        let bytes = max(1, bytes)
        var wait = roomWait ?? RoomWait(error: error, bytes: bytes)
        wait.error = error
        if isDeleted {
            wait.deletions += 1
        } else {
            wait.documents += 1
            wait.bytes = min(bytes, wait.bytes)
        }
        if roomWait == nil { actions.append(.lookForRoom(bytes: bytes)) }
        roomWait = wait
    }

    mutating func fitted(isDeleted: Bool) {
        if isDeleted { roomWait?.deletions = 0 } else { roomWait?.documents = 0 }
    }

    /// Whether a revision is to be asked for now.
    func mayFit(_ row: OfferedRow) -> Bool { roomWait?.mayFit(row, tries: settings.limits.insertionBatch) ?? true }

    mutating func lookedForRoom(isThere: Bool, _ actions: inout [PullAction]) {
        guard let roomWait else { return }
        actions.append(isThere ? .comeBackNow : .lookForRoom(bytes: roomWait.bytes))
    }
}
