import DocumentStore
import Interfaces

/// What the peer offers again on another connection only. What is not continuous ends anyway, and its checkpoint stays behind the document.
final class Reconnecting {
    private unowned let session: SessionDriver
    /// There is something that only another connection may bring, however this one ends.
    private(set) var comesBack = false

    /// Of one of our own, that is spoken to by ids.
    private var mayGetVersions = false

    /// Of pulls that wait for room.
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

    /// By ids the two sides do not hear of each other's versions, and each gives one of its own to what the other made. Where the database has got versions since
    /// the connection began, the next one speaks by them.
    ///
    /// - Returns: whether the session ends for that.
    func renewsForVersions() -> Bool {
        guard mayGetVersions, session.database.hasVersions else { return false }
        mayGetVersions = false
        renewForVersions()
        return true
    }

    private func renewForVersions() {
        let message = "connecting anew: this database names revisions by versions from now on"
        guard case .active(let active) = session.role else { return session.finish(error: nil, closeCode: 4001, reason: message) }
        guard active.replicator.isContinuous else { return }
        session.logger.notice("\(message)")
        session.finish(.reconnects, error: ReplicationError(domain: .http, code: 503, message: message), closeCode: 4001, reason: message)
    }

    /// Sees in a few seconds whether there is room for so much.
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
