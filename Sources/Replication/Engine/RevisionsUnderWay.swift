import DocumentStore
import Documents

/// The revisions of each document that were asked for and are neither stored nor given up: what is offered next was offered after them.
struct RevisionsUnderWay {
    private var documents: [DocumentID: [Version]] = [:]

    /// - Returns: those that began before it.
    mutating func begin(_ id: DocumentID, _ version: Version) -> [Version] {
        guard let earlier = documents.updateValue([version], forKey: id) else { return [] }
        documents[id] = earlier + [version]
        return earlier
    }

    /// It is stored, or it will not be.
    mutating func end(_ id: DocumentID, _ version: Version) {
        guard var versions = documents.removeValue(forKey: id), versions.count > 1 else { return }
        // One may be under way twice: taken up again from the list of what was kept back, and offered anew.
        if let index = versions.firstIndex(of: version) { versions.remove(at: index) }
        documents[id] = versions
    }
}
