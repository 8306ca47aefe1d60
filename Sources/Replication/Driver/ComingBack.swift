import DocumentStore
import Interfaces

/// What the peer offers again on another connection only. What is not continuous ends anyway, and its checkpoint stays behind the document.
extension ReplicationSession {
    func comeBackLater() {
        guard case .active(let active) = role, active.replicator.isContinuous else { return }
        comesBack = true
        let delay = RetryDelay(first: limits.deferralSeconds, longest: limits.maximumDeferralSeconds)
        later(milliseconds: delay.seconds(after: active.comebacks) * 1_000) {
            $0.comeBack("reconnecting, to request documents that could not be fetched or stored")
        }
    }

    func comeBack(_ message: String) {
        guard !hasEnded else { return }
        comesBack = true
        logger.notice("\(message)")
        finish(.reconnects, error: ReplicationError(domain: .http, code: 503, message: message), closeCode: 4001, reason: message)
    }

    /// By ids the two sides do not hear of each other's versions, and each gives one of its own to what the other made. Where the database has got versions since
    /// the connection began, the next one speaks by them.
    func renewForVersions() {
        let message = "connecting anew: this database names revisions by versions from now on"
        guard case .active(let active) = role else { return finish(error: nil, closeCode: 4001, reason: message) }
        guard active.replicator.isContinuous else { return }
        logger.notice("\(message)")
        finish(.reconnects, error: ReplicationError(domain: .http, code: 503, message: message), closeCode: 4001, reason: message)
    }

    /// Sees after a while whether there is room for so much. Where room comes and goes, ever more seldom.
    func lookForRoom(_ bytes: Int, _ link: CollectionLink) {
        guard case .active(let active) = role, active.replicator.isContinuous else { return }
        let (slot, delay) = (link.slot, RetryDelay(first: limits.roomLookSeconds, longest: limits.maximumRoomLookSeconds))
        later(milliseconds: delay.seconds(after: active.comebacks) * 1_000) { session in
            session.write { try $0.tryWriting(.peers, bytes: bytes) } then: { session, _ in
                session.tell(session.links[slot], pull: .roomLooked(isThere: true))
            } failed: { session, _ in
                session.tell(session.links[slot], pull: .roomLooked(isThere: false))
            }
        }
    }
}
