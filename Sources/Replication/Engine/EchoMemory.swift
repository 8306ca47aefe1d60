import Documents

/// Revisions that a peer gave us on this connection, so that they are not offered back. It may forget: then a revision is
/// offered once more, and the peer says that it has it.
struct EchoMemory {
    let limit: Int
    private var versions: [DocumentID: Version] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID, _ version: Version) {
        if versions.count >= limit { versions.removeAll(keepingCapacity: true) }
        versions[id] = version
    }

    /// The document is what the peer gave us; that it went away never is.
    func holds(_ document: OutgoingDocument) -> Bool {
        !versions.isEmpty && document.news == .visible && versions[document.id] == document.version
    }
}
