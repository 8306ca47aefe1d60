import Documents
import DocumentStore
import Interfaces

/// Documents that were announced to a pulling peer on this connection, and that it did not take. If all of them are forgotten, it is unknown for
/// every announced document whether the peer took it.
struct DeclinedDocuments: Sendable {
    enum Reason: Sendable, Equatable {
        /// The peer did not request it. It does not say whether it has it, does not want it, or has no space for it.
        case declined
        case refused(ReplicationError)
        /// The peer has it on a list instead of in its database.
        case kept(KeptByPeer)
    }

    /// What is known about a document that was announced to the peer.
    enum Fate: Sendable, Equatable {
        case taken
        case notTaken(Reason)
        /// The peer started after it and dealt with it before this connection: its answer from then is not remembered.
        case before
        case unknown
    }

    let limit: Int
    /// Where the peer started.
    private let start: SequenceNumber
    private var reasons: [DocumentID: (sequence: SequenceNumber, reason: Reason)] = [:]
    private var hasForgotten = false
    /// Documents before the start that were nevertheless taken, because access to them is newer than the document.
    private var takenBeforeStart: [DocumentID: SequenceNumber] = [:]

    init(limit: Int, behind start: SequenceNumber = 0) { (self.limit, self.start) = (limit, start) }

    mutating func note(_ document: OutgoingDocument, _ reason: Reason) {
        guard document.visibility == .visible else { return }
        if reasons.count >= limit, reasons[document.id] == nil {
            reasons = [:]
            hasForgotten = true
        }
        reasons[document.id] = (document.sequence, reason)
    }

    mutating func taken(_ document: OutgoingDocument) {
        if !reasons.isEmpty { reasons[document.id] = nil }
        guard document.sequence <= start, document.visibility == .visible, takenBeforeStart.count < limit || takenBeforeStart[document.id] != nil else { return }
        takenBeforeStart[document.id] = document.sequence
    }

    /// The fate of the document as it is since this sequence.
    func fate(of id: DocumentID, at sequence: SequenceNumber) -> Fate {
        if let noted = reasons[id], noted.sequence >= sequence { return .notTaken(noted.reason) }
        if sequence <= start { return takenBeforeStart[id] == sequence ? .taken : .before }
        return hasForgotten ? .unknown : .taken
    }
}

extension PushMachine {
    /// The pulling peer has the document, perhaps in place of a revision of its own, and so has not declined it.
    mutating func pullerHas(_ document: OutgoingDocument) {
        echoes.answered(document.id)
        declinedDocuments.taken(document)
    }
}
