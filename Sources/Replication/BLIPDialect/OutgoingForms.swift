import Documents
import DocumentStore

/// How a document that goes out is written in BLIP's messages.
extension OutgoingDocument {
    /// Its place in the feed, as a peer sees it.
    private var place: String { self.event.map { "\($0):\(self.sequence)" } ?? String(self.sequence) }

    /// The sequence of `changes`, `rev` and `norev`, as JSON: `LOW::SEQUENCE` where the peer has to begin earlier when it comes back.
    var sequenceJSON: String {
        guard let low = self.low else { return self.event == nil ? place : "\"\(place)\"" }
        return "\"\(low):\(self.event == nil ? ":" : "")\(place)\""
    }

    /// With the body that travels, for a peer that may want the names of blobs beside them.
    func withAttachments(whereListed: Bool) -> OutgoingDocument {
        var document = self
        document.travellingBody = (try? LegacyAttachments.add(to: self.body, generation: self.version.generation, whereListed: whereListed)) ?? self.body
        return document
    }

    /// The history for a peer that wants no more than so many ancestors. It may have been read before the peer said so. What the peer holds
    /// stays its end.
    func history(atMost limit: Int) -> [Version] {
        guard self.history.count > limit else { return self.history }
        return Array(self.history.prefix(limit)) + (self.history.last == self.peerVersion || self.history.last == self.base ? self.history.suffix(1) : [])
    }

    /// The versions behind a revision, for a peer that has version vectors. One that names an ancestor by its version takes the ids of
    /// ancestors for a branch beside that.
    func vectorHistory(isOurs: Bool) -> String? {
        guard var vector = self.vector else { return nil }
        if !isOurs, !self.isKnownByID, self.peerVersion?.isOfTree != true { vector.revisions = RevisionHistory() }
        return vector.text(authorsOnce: !isOurs)
    }

    /// What a row of `changes` says of it.
    var changeFlags: ChangeFlags {
        var flags = ChangeFlags(bits: self.isDeleted ? 1 : 0)
        if self.goesByBody { return flags }
        switch self.news {
        case .visible: break
        case .revoked: flags.bits |= 2
        case .removed: flags.bits |= 4
        }
        return flags
    }
}
