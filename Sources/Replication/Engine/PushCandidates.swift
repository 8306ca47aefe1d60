import Documents
import DocumentStore

// Which documents of a page that was read set out for the peer.
extension PushMachine {
    /// The documents of a page that begin a trip. Announcements must be made in order, since the peer's checkpoint follows them: a document that is
    /// already under way ends the page, and the rest waits.
    mutating func candidates(_ page: PushPage) -> (now: [OutgoingDocument], rest: PushPage?) {
        var now: [OutgoingDocument] = []
        now.reserveCapacity(page.documents.count)
        var begun: [DocumentID: Version] = [:]
        for index in page.documents.indices {
            var document = page.documents[index]
            // The peer loses a document that it sent us, and must get it back once it has access again.
            if document.visibility != .visible { echoes.left(document.id) }
            // While another revision is on its way to the peer, it may give up for that one what it sent us: its answer decides.
            let mayGiveUp = ledger.phase(of: document.id)?.awaitsAnswer ?? false
            if !mayGiveUp, echoes.holds(document), !settings.limits.hasPlanted(.echo) {
                held.release(document.id)
                ledger.skip(document)
                continue
            }
            if settings.style == .announce {
                // A channel feed lists a document twice if access to it is newer than the document.
                let earlier = page.from?.channels == nil ? nil : begun.updateValue(document.version, forKey: document.id)
                if document.visibility == .visible, earlier == document.version { continue }
                let isFree = ledger.claim(document.id) || settings.limits.hasPlanted(.overtakingPurge)
                guard isFree, earlier == nil else {
                    let from = index == 0 ? page.from : page.from?.behind(page.documents[index - 1])
                    return (now, PushPage(documents: Array(page.documents[index...]), from: from))
                }
                if document.visibility == .visible { echoes.offered(document.id) }
            } else {
                guard beginProposal(&document) else { continue }
            }
            now.append(document)
        }
        return (now, nil)
    }

    /// Begins the trip of a document.
    ///
    /// - Returns: whether it is to be proposed now. If not, it needs no trip, or the ledger sees to it that it is read again.
    private mutating func beginProposal(_ document: inout OutgoingDocument) -> Bool {
        guard ledger.begin(&document) else { return false }
        if let known = acknowledged.version(of: document.id), known != document.peerVersion {
            // The row was read without this knowledge, and its history may end too early: read it again, with history down to there.
            guard known == document.version || document.history.contains(known) else {
                ledger.readAgain(document, peerVersion: known)
                return false
            }
            (document.peerVersion, document.peerBranchEnd) = (known, nil)
        }
        guard document.peerVersion != document.version else {
            ledger.skip(document)
            return false
        }
        return true
    }
}
