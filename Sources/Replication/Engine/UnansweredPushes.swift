import Documents

/// Revisions that were sent on connections which ended before the peer answered. If it turns out to have one of them, it took it then, and the revision
/// counts as pushed although no answer said so.
struct UnansweredPushes: Sendable {
    private var versions: [DocumentID: Version] = [:]

    /// A connection ended while these were under way.
    mutating func note(_ documents: [OutgoingDocument]) {
        if versions.count + documents.count > EngineBounds.unansweredPushes { versions = [:] }
        for document in documents { versions[document.id] = document.version }
    }

    /// The peer has this revision. Returns whether it was sent without an answer.
    mutating func take(_ document: OutgoingDocument) -> Bool {
        guard !versions.isEmpty, versions[document.id] == document.version else { return false }
        versions[document.id] = nil
        return true
    }
}
