import DocumentStore
import Interfaces

/// Handles what the peer offers again only on another connection. A one-shot replication ends anyway, and its checkpoint stays before the document.
final class Reconnecting {
    private unowned let session: SessionDriver
    /// Something can only be obtained on another connection, however this one ends.
    private(set) var comesBack = false

    /// Set for another Nightjar with which revision ids are used.
    private var mayGetVersions = false

    /// For pulls that wait for room.
    private var roomLooks: [Int: RoomLooks] = [:]

    init(_ session: SessionDriver) { self.session = session }

    func start() {
        mayGetVersions = session.naming == .trees && session.transport.peerHasBothNames && !session.database.hasVersions
    }

    func comeBackLater() {
        guard case .active(let active) = session.role, active.replicator.isContinuous else { return }
        comesBack = true
        let delay = RetryDelay(first: session.limits.deferralSeconds, longest: session.limits.maximumDeferralSeconds)
        session.later(milliseconds: delay.seconds(after: active.comebacks) * 1_000) {
            $0.reconnecting.comeBack("reconnecting, to request documents that could not be fetched or stored")
        }
    }

    func comeBack(_ message: String) {
        guard !session.hasEnded else { return }
        comesBack = true
        session.logger.notice("\(message)")
        session.finish(.reconnects, error: ReplicationError(domain: .http, code: 503, message: message), closeCode: 4001, reason: message)
    }

    /// With revision ids, the two sides do not learn each other's versions, and each assigns one of its own to the other's revisions. If the database
    /// has got versions since the connection began, the next connection uses them.
    ///
    /// - Returns: whether the session ends for that reason.
    func renewsForVersions() -> Bool {
        guard mayGetVersions, session.database.hasVersions else { return false }
        mayGetVersions = false
        renewForVersions()
        return true
    }

    private func renewForVersions() {
        let message = "reconnecting: this database identifies revisions by versions from now on"
        guard case .active(let active) = session.role else { return session.finish(error: nil, closeCode: 4001, reason: message) }
        guard active.replicator.isContinuous else { return }
        session.logger.notice("\(message)")
        session.finish(.reconnects, error: ReplicationError(domain: .http, code: 503, message: message), closeCode: 4001, reason: message)
    }

    /// Checks in a few seconds whether there is room for this many bytes.
    func lookForRoom(_ bytes: Int, _ link: CollectionLink) {
        guard case .active(let active) = session.role, active.replicator.isContinuous else { return }
        let slot = link.slot
        let looks = roomLooks[slot] ?? RoomLooks(session.limits, comebacks: active.comebacks)
        roomLooks[slot] = looks
        session.later(milliseconds: looks.pause * 1_000) { session in
            session.write { try $0.tryWriting(.peers, bytes: bytes) } then: { session, _ in
                session.reconnecting.lookedForRoom(isThere: true, slot)
            } failed: { session, _ in
                session.reconnecting.lookedForRoom(isThere: false, slot)
            }
        }
    }

    private func lookedForRoom(isThere: Bool, _ slot: Int) {
        let isOver = roomLooks[slot]?.looked(isThere: isThere) ?? isThere
        session.tell(session.links[slot], pull: .roomLooked(isThere: isOver))
    }
}
