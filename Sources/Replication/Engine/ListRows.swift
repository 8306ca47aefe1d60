import Documents

/// The rows of a list, in order.
enum ListRows: Sendable {
    case offered([RowResult<OfferedRow>])
    case proposed([RowResult<ProposedRow>])
}

/// A revision that a peer offers.
struct OfferedRow: Sendable {
    var sequence: RemoteSequence
    var id: DocumentID
    var revision: RevisionID
    var isDeletion = false
    /// The peer took the document away, as opposed to deleting it.
    var isAccessRemoved = false
    /// Zero if the peer does not say.
    var bodySize = 0
}

/// A revision that a peer proposes as successor of the one it believes to be current here.
struct ProposedRow: Sendable {
    var id: DocumentID
    var revision: RevisionID
    /// Its version vector, as far as the peer sends it.
    var vector: VectorHistory?
    /// The revision that the peer believes to be current here.
    var parent: RevisionID?
    var bodySize: Int
}

/// A row that may be unreadable: it is answered on its own, and the rest of the list is processed.
enum RowResult<Row: Sendable>: Sendable {
    case row(Row)
    /// Includes the document's id if that could be read, under the name by which it is listed if it is no valid one. `isGone`: it is deleted there, so that
    /// nothing is missing here.
    case bad(String, sequence: RemoteSequence?, id: DocumentID? = nil, isGone: Bool = false)
}

extension RowResult<OfferedRow> {
    /// The row's position in the peer's feed, if that much could be read.
    var sequence: RemoteSequence? {
        switch self {
        case .row(let row): row.sequence
        case .bad(_, let sequence, _, _): sequence
        }
    }
}
