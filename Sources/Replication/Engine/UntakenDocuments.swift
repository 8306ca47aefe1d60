import Documents
import DocumentStore
import Interfaces

/// Documents that a peer which pulls was told of on this connection, and did not take. It may forget all of them: then of none that the peer was told
/// of it is known whether it has been taken.
struct UntakenDocuments: Sendable {
    enum Reason: Sendable, Equatable {
        /// The peer did not ask for it. It does not say whether it has it, does not want it, or has no room for it.
        case declined
        case refused(ReplicationError)
        /// The peer has it on a list, and not in its database.
        case kept(KeptThere)
    }

    /// What is known of one that was told.
    enum Fate: Sendable, Equatable {
        case taken
        case untaken(Reason)
        /// The peer began behind it, and dealt with it before: what it said then is not remembered.
        case before
        case unknown
    }

    let limit: Int
    /// Where the peer began.
    private let start: SequenceNumber
    private var reasons: [DocumentID: (sequence: SequenceNumber, reason: Reason)] = [:]
    private var hasForgotten = false
    /// What lies before the start and was taken all the same, where access to it is newer than the document.
    private var takenBehind: [DocumentID: SequenceNumber] = [:]

    init(limit: Int, behind start: SequenceNumber = 0) { (self.limit, self.start) = (limit, start) }

    mutating func note(_ document: OutgoingDocument, _ reason: Reason) {
        guard document.news == .visible else { return }
        if reasons.count >= limit, reasons[document.id] == nil {
            reasons = [:]
            hasForgotten = true
        }
        reasons[document.id] = (document.sequence, reason)
    }

    mutating func taken(_ document: OutgoingDocument) {
        if !reasons.isEmpty { reasons[document.id] = nil }
        guard document.sequence <= start, document.news == .visible, takenBehind.count < limit || takenBehind[document.id] != nil else { return }
        takenBehind[document.id] = document.sequence
    }

    /// Of the document as it is since this sequence.
    func fate(of id: DocumentID, at sequence: SequenceNumber) -> Fate {
        if let noted = reasons[id], noted.sequence >= sequence { return .untaken(noted.reason) }
        if sequence <= start { return takenBehind[id] == sequence ? .taken : .before }
        return hasForgotten ? .unknown : .taken
    }
}

extension PushMachine {
    /// The peer that pulls has it.
    mutating func told(_ document: OutgoingDocument) {
        echoes.answered(document.id)
        untaken.taken(document)
    }
}
