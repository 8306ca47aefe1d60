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
    /// Zero where the peer does not say.
    var bodySize = 0
}

/// A revision that a peer proposes in place of the one that it believes to be current here.
struct ProposedRow: Sendable {
    var id: DocumentID
    var revision: RevisionID
    /// Its version vector, as far as the peer names it.
    var vector: VectorHistory?
    /// The revision that the peer believes to be current here.
    var parent: RevisionID?
    var bodySize: Int
}

/// A row that could not be read: answered by itself, the rest of the list goes on.
enum RowResult<Row: Sendable>: Sendable {
    case row(Row)
    /// With the document, where its id could be read.
    case bad(String, sequence: RemoteSequence?, id: DocumentID? = nil)
}

extension RowResult<OfferedRow> {
    /// Where the row stands in the peer's feed, if that much could be read.
    var sequence: RemoteSequence? {
        switch self {
        case .row(let row): row.sequence
        case .bad(_, let sequence, _): sequence
        }
    }
}
