import Logging
import TLS

extension IdentitySource {
    /// Logs changes of the identity that the agent makes for itself: peers pin its key.
    func logIdentityChanges(_ logger: Logger) {
        for event in takeIdentityEvents() {
            let pin = current.leaf.pin
            switch event {
            case .kept, .made: break
            case .renewed(let reason):
                logger.notice("the agent's own certificate is replaced: \(reason)", metadata: ["identity": "\(label)", "pin": "\(pin)"])
            case .replaced(let reason, let damagedFile):
                logger.warning(
                    """
                    the agent's own identity is lost, and it has another key: peers that pin the one before refuse it; restore the file from a backup, \
                    or have them pin the new one: \(reason)
                    """, metadata: ["identity": "\(label)", "damaged_file": "\(damagedFile)", "pin": "\(pin)"])
            case .putBack:
                logger.warning(
                    """
                    the file of the agent's own identity was gone and has been written again with the same key, so pins stay valid; find out what removed it, \
                    and restore what else was in that folder from a backup
                    """, metadata: ["identity": "\(label)", "pin": "\(pin)"])
            case .lost(let earlier):
                logger.warning(
                    """
                    the agent made a new key, because the file of its own identity is gone: \(earlier.refusers) refuse this agent; restore DATA/identities from a \
                    backup, or give the peers the new pin
                    """, metadata: ["identity": "\(label)", "pin": "\(pin)"])
            }
        }
    }
}

extension KeyStore.EarlierIdentity {
    /// The peers that refuse an agent with a new key.
    var refusers: String {
        switch self {
        case .pinned(let pin): "peers that pin the old one (\(pin))"
        case .none, .unknown: "peers that pin an earlier one, which is not known here,"
        }
    }
}
