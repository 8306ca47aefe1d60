import Documents
import DocumentStore

/// How an outgoing document is written in BLIP messages.
extension OutgoingDocument {
    /// Its position in the feed, as sent to a peer.
    private var place: String { self.event.map { "\($0):\(self.sequence)" } ?? String(self.sequence) }

    /// The sequence in `changes`, `rev` and `norev`, as JSON: `LOW::SEQUENCE` if the peer has to resume at an earlier one after a reconnect.
    var sequenceJSON: String {
        guard let low = self.low else { return self.event == nil ? place : "\"\(place)\"" }
        return "\"\(low):\(self.event == nil ? ":" : "")\(place)\""
    }

    /// With the body to send, for a peer that may want blobs listed under `_attachments` as well.
    func withAttachments(whereListed: Bool) -> OutgoingDocument {
        var document = self
        document.wireBody = (try? LegacyAttachments.add(to: self.body, generation: self.version.generation, whereListed: whereListed)) ?? self.body
        return document
    }

    /// The history for a peer that wants at most `limit` ancestors; it may have been read before the peer said so. It still ends at the revision that
    /// the peer holds.
    func history(atMost limit: Int) -> [Version] {
        guard self.history.count > limit else { return self.history }
        return Array(self.history.prefix(limit)) + (self.history.last == self.peerVersion || self.history.last == self.base ? self.history.suffix(1) : [])
    }

    /// The versions behind a revision, for a peer with version vectors. A peer that knows an ancestor by its version takes the revision ids of
    /// ancestors for a separate branch.
    func vectorHistory(isOurs: Bool) -> String? {
        guard var vector = self.vector else { return nil }
        if !isOurs, !self.isKnownByID, self.peerVersion?.namesTreeRevision != true { vector.revisions = RevisionHistory() }
        return vector.text(authorsOnce: !isOurs)
    }

    /// The flags of its row in `changes`.
    var changeFlags: ChangeFlags {
        var flags = ChangeFlags(bits: self.isDeleted ? 1 : 0)
        if self.goesByBody { return flags }
        switch self.visibility {
        case .visible: break
        case .revoked: flags.bits |= 2
        case .removed: flags.bits |= 4
        }
        return flags
    }
}
