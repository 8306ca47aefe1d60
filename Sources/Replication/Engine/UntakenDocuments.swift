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
    }

    /// What is known of one that was told.
    enum Fate: Sendable, Equatable {
        case taken
        case untaken(Reason)
        case unknown
    }

    let limit: Int
    private var reasons: [DocumentID: (sequence: SequenceNumber, reason: Reason)] = [:]
    private var hasForgotten = false

    init(limit: Int) { self.limit = limit }

    mutating func note(_ document: OutgoingDocument, _ reason: Reason) {
        guard document.news == .visible else { return }
        if reasons.count >= limit, reasons[document.id] == nil {
            reasons = [:]
            hasForgotten = true
        }
        reasons[document.id] = (document.sequence, reason)
    }

    mutating func taken(_ id: DocumentID) { if !reasons.isEmpty { reasons[id] = nil } }

    /// Of the document as it is since this sequence.
    func fate(of id: DocumentID, at sequence: SequenceNumber) -> Fate {
        if let noted = reasons[id], noted.sequence >= sequence { return .untaken(noted.reason) }
        return hasForgotten ? .unknown : .taken
    }
}

extension PushMachine {
    /// The peer that pulls has it.
    mutating func told(_ document: OutgoingDocument) {
        echoes.answered(document.id)
        untaken.taken(document.id)
    }
}
