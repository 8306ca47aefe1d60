import Interfaces

/// A pull that waits for space. It continues reading: deletions and removals make space, and a document smaller than all that did not fit may fit.
/// Other documents are not requested, so that a full store need not refuse them one by one. They stay open, so that no checkpoint passes them, and
/// are offered again on another connection.
struct SpaceWait: Sendable {
    /// Why something did not fit.
    var error: ReplicationError
    /// Size of the smallest document that did not fit, including its blobs.
    var bytes: Int
    /// Documents that did not fit since the last one that did.
    var documents = 0
    /// Likewise for deletions: a full disk does not accept them either.
    var deletions = 0

    /// Whether it is worth requesting a revision. Many rows do not say how large their documents are.
    func mayFit(_ row: OfferedRow, tries: Int) -> Bool {
        row.isDeletion ? deletions < tries : row.bodySize < bytes && documents < tries
    }
}

/// When to check for space. A pull normally uses new space within seconds; if space came and went before, only after the wait has lasted long enough.
struct SpaceChecks: Sendable {
    /// Seconds between two checks.
    let pause: Int
    private let least: Int
    private var lasted = 0

    /// - Parameter comebacks: number of consecutive connections that ended in order to request again what did not fit.
    init(_ limits: ReplicationLimits, comebacks: Int) {
        pause = limits.spaceCheckSeconds
        least = RetryDelay(first: limits.spaceCheckSeconds, longest: limits.maximumSpaceCheckSeconds).seconds(after: comebacks)
    }

    /// A pause has ended; `isThere` says whether there is space.
    ///
    /// - Returns: whether the wait is over.
    mutating func checked(isThere: Bool) -> Bool {
        lasted += pause
        return isThere && lasted >= least
    }
}

extension PullMachine {
    /// A document cannot be obtained or stored at the moment.
    mutating func postpone(
        _ sequence: RemoteSequence?, _ error: ReplicationError, bytes: Int, isDeleted: Bool = false, _ actions: inout [PullAction]
    ) {
        guard error.isOutOfSpace, !settings.isPassive else { return requestReconnect(&actions) }
        leaveOpen(sequence)
        // The size of some attachments is unknown.
        let bytes = max(1, bytes)
        var wait = spaceWait ?? SpaceWait(error: error, bytes: bytes)
        wait.error = error
        if isDeleted {
            wait.deletions += 1
        } else {
            wait.documents += 1
            wait.bytes = min(bytes, wait.bytes)
        }
        if spaceWait == nil { actions.append(.checkForSpace(bytes: bytes)) }
        spaceWait = wait
    }

    mutating func fitted(isDeleted: Bool) {
        if isDeleted { spaceWait?.deletions = 0 } else { spaceWait?.documents = 0 }
    }

    /// Whether a revision should be requested now.
    func mayFit(_ row: OfferedRow) -> Bool { spaceWait?.mayFit(row, tries: settings.limits.triesForSpace) ?? true }

    mutating func finishSpaceCheck(isThere: Bool, _ actions: inout [PullAction]) {
        guard let spaceWait else { return }
        actions.append(isThere ? .reconnectNow : .checkForSpace(bytes: spaceWait.bytes))
    }
}
