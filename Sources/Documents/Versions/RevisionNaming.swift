/// How a peer names revisions.
public enum RevisionNaming: Sendable {
    /// By their ids.
    case trees
    /// By the versions of their vectors, and by their ids if they have none: used between Nightjars.
    case vectors
    /// By versions only. A revision without one is named by the version that stands for it: Couchbase Lite 4.1 treats a document that it knows by an
    /// id as damaged at the next change, and refuses the rest of the list with it.
    case versionsOnly
}
