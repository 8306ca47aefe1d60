/// What a peer calls revisions.
public enum RevisionNaming: Sendable {
    /// By their ids.
    case trees
    /// By the versions of their vectors, and by their ids where they have none: peers of our own kind.
    case vectors
    /// By versions only. What has none is named by the version that stands for it: Couchbase Lite 4.1 takes a document that it knows by an id
    /// for damaged at the next change, and with it the rest of the list.
    case versionsOnly
}
