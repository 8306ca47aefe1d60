import Documents

/// Revisions that the peer acknowledged, until the store has durably recorded that.
struct AcknowledgedVersions {
    /// What is to be recorded in one transaction.
    struct Batch: Sendable {
        var marks: [(id: DocumentID, version: Version)]
        /// The documents may be on the kept-back list, and are to be taken off it.
        var endsExclusions: Bool
    }

    private var versions: [DocumentID: Version] = [:]
    private var unsaved: [(id: DocumentID, version: Version)] = []
    private(set) var batchesInFlight = 0

    var unsavedCount: Int { unsaved.count }
    var isEmpty: Bool { unsaved.isEmpty && batchesInFlight == 0 }

    /// The revision that the peer is known to hold, if the store does not know it yet.
    func version(of id: DocumentID) -> Version? { versions.isEmpty ? nil : versions[id] }

    mutating func add(_ id: DocumentID, _ version: Version) {
        versions[id] = version
        unsaved.append((id, version))
    }

    /// The peer has moved on: its earlier acknowledgement no longer applies.
    mutating func supersede(_ id: DocumentID, by version: Version) {
        guard !versions.isEmpty, let known = versions[id], known != version else { return }
        versions[id] = nil
        unsaved.removeAll { $0.id == id }
    }

    /// Takes what is to be recorded; nil if there is nothing.
    mutating func take(endsExclusions: Bool) -> Batch? {
        guard !unsaved.isEmpty else { return nil }
        defer { unsaved = [] }
        batchesInFlight += 1
        return Batch(marks: unsaved, endsExclusions: endsExclusions)
    }

    mutating func noted(_ batch: Batch) {
        batchesInFlight -= 1
        for mark in batch.marks {
            if let index = versions.index(forKey: mark.id), versions[index].value == mark.version { versions.remove(at: index) }
        }
    }
}
