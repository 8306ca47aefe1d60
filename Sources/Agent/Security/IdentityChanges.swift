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
            }
        }
    }
}
