import Documents

/// A revision that a peer which pulls has taken off our hands, and has not stored: it says so with its answer, where it is a Nightjar.
public struct KeptThere: Sendable, Equatable {
    /// As it stands on the wire.
    public enum Reason: String, Sendable {
        /// Its pull filter said no.
        case rejected
        /// Its pull filter failed, and is asked again.
        case held
        /// A blob of it could not be had or taken.
        case blob
        /// It is larger than its database takes.
        case size
    }

    public var reason: Reason
    public var revision: RevisionID

    public init(_ reason: Reason, _ revision: RevisionID) { (self.reason, self.revision) = (reason, revision) }
}
