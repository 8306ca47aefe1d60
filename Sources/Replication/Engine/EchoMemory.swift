import Documents

/// Revisions that crossed the connection a moment ago, so that they are neither offered back nor fetched back. It may forget: then a
/// revision is offered once more, and the other side says that it has it.
struct EchoMemory {
    private struct Echo: Hashable {
        var id: DocumentID
        var version: Version
    }

    let limit: Int
    private var echoes: Set<Echo> = []

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID, _ version: Version) {
        if echoes.count >= limit { echoes.removeAll(keepingCapacity: true) }
        echoes.insert(Echo(id: id, version: version))
    }

    func holds(_ id: DocumentID, _ version: Version) -> Bool { !echoes.isEmpty && echoes.contains(Echo(id: id, version: version)) }

    /// The document is what the peer gave us; that it went away never is.
    func holds(_ document: OutgoingDocument) -> Bool {
        document.news == .visible && holds(document.id, document.version)
    }
}
