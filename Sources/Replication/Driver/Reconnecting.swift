import DocumentStore
import Interfaces

/// Handles what the peer offers again only on another connection. A one-shot replication ends anyway, and its checkpoint stays before the document.
final class Reconnecting {
    private unowned let session: SessionDriver
    /// Something can only be obtained on another connection, however this one ends.
    private(set) var needsReconnect = false

    /// Set for another Nightjar with which revision ids are used.
    private var mayGetVersions = false

    /// For pulls that wait for space.
    private var spaceChecks: [Int: SpaceChecks] = [:]

    init(_ session: SessionDriver) { self.session = session }

    func start() {
        mayGetVersions = session.naming == .trees && session.transport.peerHasBothNames && !session.database.hasVersions
    }

    func reconnectLater() {
        guard !needsReconnect, case .active(let active) = session.role, active.replicator.isContinuous else { return }
        needsReconnect = true
        let delay = RetryDelay(first: session.limits.deferralSeconds, longest: session.limits.maximumDeferralSeconds)
        session.later(milliseconds: delay.seconds(after: active.comebacks) * 1_000) { $0.reconnecting.reconnectUnlessMoving(since: nil, waited: 0) }
    }

    /// A revision that is cut in the middle starts again from its beginning. So this waits while the connection is busy and bytes move, but not for ever:
    /// a connection that is never idle must not keep the other documents waiting.
    private func reconnectUnlessMoving(since before: UInt64?, waited: Int) {
        guard !session.hasEnded else { return }
        let counts = session.counters.snapshot
        let moved = counts.bytesSent &+ counts.bytesReceived
        let isMoving = before.map { moved &- $0 >= UInt64(DriverBounds.progressBytes) } ?? true
        guard session.isBusy, isMoving, waited < DriverBounds.longestReconnectWaitSeconds else {
            return requestReconnect("reconnecting, to request documents that could not be fetched or stored")
        }
        let pause = DriverBounds.reconnectCheckSeconds
        session.later(milliseconds: pause * 1_000) { $0.reconnecting.reconnectUnlessMoving(since: moved, waited: waited + pause) }
    }

    func requestReconnect(_ message: String) {
        guard !session.hasEnded else { return }
        needsReconnect = true
        session.logger.notice("\(message)")
        session.finish(.reconnects, error: .busy(message), closeCode: CloseCode.comeBack, reason: message)
    }

    /// With revision ids, the two sides do not learn each other's versions, and each assigns one of its own to the other's revisions. If the database
    /// has got versions since the connection began, the next connection uses them.
    ///
    /// - Returns: whether the session ends for that reason.
    func renewForVersionsIfDue() -> Bool {
        guard mayGetVersions, session.database.hasVersions else { return false }
        mayGetVersions = false
        renewForVersions()
        return true
    }

    /// Ends the session if everything that was requested one by one is here.
    ///
    /// - Returns: whether the session ends for that reason.
    func endCautionIfDue() -> Bool {
        guard case .active(let active) = session.role, active.caution > .none, active.replicator.isContinuous, session.life == .running else { return false }
        requestReconnect("reconnecting: documents that were too large together for limits.memory came one by one")
        return true
    }

    private func renewForVersions() {
        let message = "reconnecting: this database identifies revisions by versions from now on"
        guard case .active(let active) = session.role else { return session.finish(error: nil, closeCode: CloseCode.comeBack, reason: message) }
        guard active.replicator.isContinuous else { return }
        session.logger.notice("\(message)")
        session.finish(.reconnects, error: .busy(message), closeCode: CloseCode.comeBack, reason: message)
    }

    /// Checks in a few seconds whether there is space for this many bytes.
    func checkForSpace(_ bytes: Int, _ link: CollectionLink) {
        guard case .active(let active) = session.role, active.replicator.isContinuous else { return }
        let slot = link.slot
        let checks = spaceChecks[slot] ?? SpaceChecks(session.limits, comebacks: active.comebacks)
        spaceChecks[slot] = checks
        session.later(milliseconds: checks.pause * 1_000) { session in
            session.write { try $0.tryWriting(.peers, bytes: bytes) } then: { session, _ in
                session.reconnecting.finishSpaceCheck(isThere: true, slot)
            } failed: { session, _ in
                session.reconnecting.finishSpaceCheck(isThere: false, slot)
            }
        }
    }

    private func finishSpaceCheck(isThere: Bool, _ slot: Int) {
        let isOver = spaceChecks[slot]?.checked(isThere: isThere) ?? isThere
        session.tell(session.links[slot], pull: .spaceChecked(isThere: isOver))
    }
}
