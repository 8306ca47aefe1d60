import Documents

/// A revision that a pulling peer has accepted responsibility for without storing it. A Nightjar says so in its answer.
public struct KeptByPeer: Sendable, Equatable {
    public enum Reason: CaseIterable, Sendable {
        /// The peer's pull filter rejected it.
        case rejected
        /// The peer's pull filter failed, and will be asked again.
        case held
        /// One of its blobs could not be obtained or stored.
        case blob
        /// It exceeds the size limit of the peer's database.
        case size
    }

    public var reason: Reason
    public var revision: RevisionID

    public init(_ reason: Reason, _ revision: RevisionID) { (self.reason, self.revision) = (reason, revision) }
}

/// What a peer did with a revision that it acknowledged.
enum PeerTaking: Sendable, Equatable {
    case stored
    /// It was there, by another way.
    case alreadyHeld
    /// It is on a list of the peer instead of in its database.
    case kept(KeptByPeer.Reason)
}
