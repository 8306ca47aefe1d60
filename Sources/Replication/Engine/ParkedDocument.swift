import Documents
import DocumentStore

extension PushLedger {
    /// A document that is not loaded, and whose sequence stays open.
    struct Parked {
        var sequence: SequenceNumber
        /// The revision that the peer is known to hold.
        var peerVersion: Version?
        /// The pull was complete when it was last offered, and the peer still named a revision that is not here.
        var wasOfferedAfterPull = false
        /// The peer answered "forbidden" when it was last sent.
        var wasForbidden = false
    }
}
