import DocumentStore
import Interfaces

/// Handles what the peer offers again only on another connection. A one-shot replication ends anyway, and its checkpoint stays before the document.
final class Reconnecting {
    private unowned let driver: SessionDriver
    /// Something can only be obtained on another connection, however this one ends.
    private(set) var needsReconnect = false

    /// Set for another Nightjar with which revision ids are used.
    private var mayGetVersions = false

    /// For pulls that wait for space.
    private var spaceChecks: [Int: SpaceChecks] = [:]

    init(_ driver: SessionDriver) { self.driver = driver }

    func start() {
        mayGetVersions = driver.naming == .trees && driver.transport.peerHasBothNames && !driver.database.hasVersions
    }

    func reconnectLater() {
        guard !needsReconnect, case .active(let active) = driver.role, active.replicator.isContinuous else { return }
        needsReconnect = true
        let delay = RetryDelay(first: driver.limits.deferralSeconds, longest: driver.limits.maximumDeferralSeconds)
        driver.later(milliseconds: delay.seconds(after: active.comebacks) * 1_000) { $0.reconnecting.reconnectUnlessMoving(since: nil, waited: 0) }
    }

    /// A revision that is cut in the middle starts again from its beginning. So this waits while the connection is busy and bytes move, but not for ever:
    /// a connection that is never idle must not keep the other documents waiting.
    private func reconnectUnlessMoving(since before: UInt64?, waited: Int) {
        guard !driver.hasEnded else { return }
        let counts = driver.counters.snapshot
        let moved = counts.bytesSent &+ counts.bytesReceived
        let isMoving = before.map { moved &- $0 >= UInt64(DriverBounds.progressBytes) } ?? true
        guard driver.isBusy, isMoving, waited < DriverBounds.longestReconnectWaitSeconds else {
            return requestReconnect("reconnecting, to request documents that could not be fetched or stored")
        }
        let pause = DriverBounds.reconnectCheckSeconds
        driver.later(milliseconds: pause * 1_000) { $0.reconnecting.reconnectUnlessMoving(since: moved, waited: waited + pause) }
    }

    func requestReconnect(_ message: String) {
        guard !driver.hasEnded else { return }
        needsReconnect = true
        driver.logger.notice("\(message)")
        driver.finish(.reconnects, error: .busy(message), closeCode: CloseCode.comeBack, reason: message)
    }

    /// With revision ids, the two sides do not learn each other's versions, and each assigns one of its own to the other's revisions. If the database
    /// has got versions since the connection began, the next connection uses them.
    ///
    /// - Returns: whether the session ends for that reason.
    func renewForVersionsIfDue() -> Bool {
        guard mayGetVersions, driver.database.hasVersions else { return false }
        mayGetVersions = false
        renewForVersions()
        return true
    }

    /// Ends the session if everything that was requested one by one is here.
    ///
    /// - Returns: whether the session ends for that reason.
    func endCautionIfDue() -> Bool {
        guard case .active(let active) = driver.role, active.caution > .none, active.replicator.isContinuous, driver.life == .running else { return false }
        requestReconnect("reconnecting: documents that were too large together for limits.memory came one by one")
        return true
    }

    private func renewForVersions() {
        let message = "reconnecting: this database identifies revisions by versions from now on"
        guard case .active(let active) = driver.role else { return driver.finish(error: nil, closeCode: CloseCode.comeBack, reason: message) }
        guard active.replicator.isContinuous else { return }
        driver.logger.notice("\(message)")
        driver.finish(.reconnects, error: .busy(message), closeCode: CloseCode.comeBack, reason: message)
    }

    /// Checks in a few seconds whether there is space for this many bytes.
    func checkForSpace(_ bytes: Int, _ link: CollectionLink) {
        guard case .active(let active) = driver.role, active.replicator.isContinuous else { return }
        let slot = link.slot
        let checks = spaceChecks[slot] ?? SpaceChecks(driver.limits, comebacks: active.comebacks)
        spaceChecks[slot] = checks
        driver.later(milliseconds: checks.pause * 1_000) { driver in
            driver.write { try $0.tryWriting(.peers, bytes: bytes) } then: { driver, _ in
                driver.reconnecting.finishSpaceCheck(isThere: true, slot)
            } failed: { driver, _ in
                driver.reconnecting.finishSpaceCheck(isThere: false, slot)
            }
        }
    }

    private func finishSpaceCheck(isThere: Bool, _ slot: Int) {
        let isOver = spaceChecks[slot]?.checked(isThere: isThere) ?? isThere
        driver.tell(driver.links[slot], pull: .spaceChecked(isThere: isOver))
    }
}
