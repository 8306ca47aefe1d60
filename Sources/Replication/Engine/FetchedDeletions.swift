import Documents

/// Documents whose deletion the peer has requested on this connection. If it creates a document with such an id and no ancestor, it may have done so
/// before it learned of the deletion: it would then keep one of the two, and hear no more of what is current here.
///
/// Each counts once, also where the peer is told of it again because it was refused: by then it has learned of it. A peer that has forgotten the deletion
/// since may create the document when it retries.
struct FetchedDeletions {
    let limit: Int
    private var underWay: [DocumentID: Version] = [:]
    private var counted: [DocumentID: Version] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func add(_ document: OutgoingDocument) {
        if !counted.isEmpty, counted[document.id] == document.version { return }
        if underWay.count >= limit { underWay.removeAll(keepingCapacity: true) }
        underWay[document.id] = document.version
    }

    mutating func take(_ id: DocumentID) -> Bool {
        guard !underWay.isEmpty, let version = underWay.removeValue(forKey: id) else { return false }
        if counted.count >= limit { counted.removeAll(keepingCapacity: true) }
        counted[id] = version
        return true
    }
}
